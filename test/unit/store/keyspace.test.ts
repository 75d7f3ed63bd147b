/** The keyspace of the embedded store replies like Redis, removes expired keys, and does not grow without bound. */
import { describe, expect, it } from "vitest";
import type { RedisApi } from "../../../src/scripts/redis-api.js";
import { redisApi } from "../../../src/store/embedded/commands.js";
import { createKeyspace } from "../../../src/store/embedded/keyspace.js";
import { compareBytes } from "../../../src/store/embedded/sorted-set.js";

const START = 1_700_000_000_123_456;

function atTime(start = START) {
  const time = { now: start };
  const keyspace = createKeyspace(() => time.now);
  return { time, keyspace: { ...keyspace, ...redisApi(keyspace, () => {}) } };
}

/** Calls commands that the types do not allow. */
function callAnything(api: RedisApi): (...args: unknown[]) => unknown {
  return api.call as unknown as (...args: unknown[]) => unknown;
}

describe("time and expiry", () => {
  it("returns the time as two texts: seconds and microseconds", () => {
    const { keyspace } = atTime();
    expect(keyspace.call("TIME")).toEqual(["1700000000", "123456"]);
  });

  it("keeps a key through the millisecond in which it expires, but no longer", () => {
    const { time, keyspace } = atTime();
    keyspace.call("SET", "k", "v", "PX", 10);
    time.now = START + 10_000;
    expect(keyspace.call("GET", "k")).toBe("v");
    time.now = START + 11_000;
    expect(keyspace.call("GET", "k")).toBe(false);
    expect(keyspace.call("EXISTS", "k")).toBe(0);
    expect(keyspace.call("DEL", "k")).toBe(0);
  });

  it("expires hashes and sorted sets as a whole; the next write creates a new one without expiry", () => {
    const { time, keyspace } = atTime();
    keyspace.call("HSET", "h", "a", 1);
    keyspace.call("ZADD", "z", 1, "a");
    keyspace.call("PEXPIRE", "h", 5);
    keyspace.call("PEXPIRE", "z", 5);
    time.now += 6_000;
    expect(keyspace.call("HSET", "h", "b", 2)).toBe(1);
    expect(keyspace.call("HGETALL", "h")).toEqual(["b", "2"]);
    expect(keyspace.call("ZADD", "z", 2, "b")).toBe(1);
    expect(keyspace.call("ZRANGE", "z", 0, -1)).toEqual(["b"]);
    time.now += 60_000_000;
    expect(keyspace.call("ZCARD", "z")).toBe(1);
  });

  it("removes the expiry with SET and keeps it with INCR", () => {
    const { time, keyspace } = atTime();
    keyspace.call("SET", "a", 1, "PX", 5);
    keyspace.call("SET", "b", 1, "PX", 5);
    keyspace.call("SET", "a", 1);
    keyspace.call("INCR", "b");
    time.now += 6_000;
    expect(keyspace.call("GET", "a")).toBe("1");
    expect(keyspace.call("GET", "b")).toBe(false);
  });

  it("does not advance the time while a script runs", () => {
    const { time, keyspace } = atTime();
    keyspace.call("SET", "k", "v", "PX", 5);
    keyspace.atomically(() => {
      time.now += 60_000;
      expect(keyspace.call("GET", "k")).toBe("v");
      expect(keyspace.call("TIME")).toEqual(["1700000000", "123456"]);
    });
    expect(keyspace.call("GET", "k")).toBe(false);
  });

  it("does not lose keys when the clock steps back", () => {
    const { time, keyspace } = atTime();
    keyspace.call("SET", "k", "v", "PX", 5);
    time.now -= 3_600_000_000;
    keyspace.atomically(() => undefined);
    expect(keyspace.call("GET", "k")).toBe("v");
  });

  it("holds a bounded number of keys even if expired keys are never read", () => {
    const { time, keyspace } = atTime();
    let most = 0;
    for (let i = 0; i < 20_000; i++) {
      keyspace.atomically(() => {
        for (let j = 0; j < 5; j++) keyspace.call("SET", `k:${i}:${j}`, "v", "PX", 100);
      });
      time.now += 1_000;
      most = Math.max(most, keyspace.size());
    }
    // 5 new keys per millisecond with a time-to-live of 100 ms: 500 keys are alive.
    expect(most).toBeLessThan(1_500);
  });
});

describe("input that Redis rejects", () => {
  it("rejects commands that scripts may not use", () => {
    const call = callAnything(atTime().keyspace);
    expect(() => call("KEYS", "*")).toThrow(/Unknown Redis command/);
    expect(() => call("get", "k")).toThrow(/Unknown Redis command/);
    expect(() => call("toString")).toThrow(/Unknown Redis command/);
  });

  it("rejects NaN and arguments that are neither text nor number", () => {
    const call = callAnything(atTime().keyspace);
    for (const value of [undefined, null, true, {}, [], Number.NaN]) {
      expect(() => call("SET", "k", value)).toThrow(/must be strings or integers/);
    }
    expect(call("EXISTS", "k")).toBe(0);
  });

  it("rejects a command on a key of another type, and changes nothing", () => {
    const { keyspace } = atTime();
    keyspace.call("SET", "s", "text");
    expect(() => keyspace.call("HGETALL", "s")).toThrow(/^WRONGTYPE/);
    expect(() => keyspace.call("ZADD", "s", 1, "m")).toThrow(/^WRONGTYPE/);
    expect(keyspace.call("GET", "s")).toBe("text");
  });
});

describe("sorted sets", () => {
  it("orders by score, then by bytes", () => {
    const { keyspace } = atTime();
    const members = ["\u{1f600}", "\uffee", "é", "b", "a", "B", ""];
    for (const member of members) keyspace.call("ZADD", "z", 1, member);
    keyspace.call("ZADD", "z", 0, "last in bytes \u{1f600}");
    const byBytes = [...members].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect(keyspace.call("ZRANGE", "z", 0, -1)).toEqual(["last in bytes \u{1f600}", ...byBytes]);
  });

  it("compares texts by their bytes", () => {
    expect(compareBytes("a", "a")).toBe(0);
    expect(compareBytes("a", "ab")).toBeLessThan(0);
    expect(compareBytes("\u{10000}", "\uffff")).toBeGreaterThan(0);
    expect(compareBytes("\ud7ff", "\ue000")).toBeLessThan(0);
  });

  it("keeps members in order through random changes", () => {
    const { keyspace } = atTime();
    const model = new Map<string, number>();
    let seed = 1;
    const random = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    for (let i = 0; i < 30_000; i++) {
      const member = `m${random(4_000)}`;
      const score = random(500);
      // Grows in the first third, then shrinks, then does both, so that chunks are split and joined.
      if (random(10) < (i < 10_000 ? 9 : i < 20_000 ? 2 : 5)) {
        keyspace.call("ZADD", "z", score, member);
        model.set(member, score);
      } else {
        expect(keyspace.call("ZREM", "z", member)).toBe(model.delete(member) ? 1 : 0);
      }
      if (i % 1_000 === 0) {
        const removed = keyspace.call("ZREMRANGEBYSCORE", "z", score, score + 5);
        const gone = [...model].filter(([, one]) => one >= score && one <= score + 5);
        for (const [one] of gone) model.delete(one);
        expect(removed).toBe(gone.length);
        const ordered = [...model].sort(([a, x], [b, y]) => x - y || compareBytes(a, b)).map(([one]) => one);
        expect(keyspace.call("ZRANGE", "z", 0, -1)).toEqual(ordered);
        expect(keyspace.call("ZRANGE", "z", 300, 310)).toEqual(ordered.slice(300, 311));
        const counted = [...model.values()].filter((one) => one > 100 && one < 200).length;
        expect(keyspace.call("ZCOUNT", "z", "(100", "(200")).toBe(counted);
      }
    }
  });

  it("supports a hundred thousand members added in random order", () => {
    const { keyspace } = atTime();
    const many = 100_000;
    for (let i = 0; i < many; i++) keyspace.call("ZADD", "z", (i * 7919) % many, `m${i}`);
    expect(keyspace.call("ZCARD", "z")).toBe(many);
    expect(keyspace.call("ZCOUNT", "z", "(10", 20)).toBe(10);
    expect(keyspace.call("ZREMRANGEBYSCORE", "z", "-inf", "(50000")).toBe(50_000);
    expect(keyspace.call("ZRANGE", "z", 0, 0, "WITHSCORES")[1]).toBe("50000");
    expect(keyspace.call("ZCARD", "z")).toBe(50_000);
  });
});
