/** Parts of the Redis store that need no Redis: hash slots, error kinds, deadline. */
import { EventEmitter } from "node:events";
import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { StoreError } from "../../../src/store/errors.js";
import { hashSlot } from "../../../src/store/redis/client.js";
import { createDeadline } from "../../../src/store/redis/deadline.js";
import { classify } from "../../../src/store/redis/redis-errors.js";

describe("hash slots", () => {
  it.each([
    ["123456789", 12739],
    ["foo", 12182],
    ["", 0],
    ["{user1000}.following", 3443],
    ["{user1000}.followers", 3443],
  ])("%s is in slot %i", (key, slot) => {
    expect(hashSlot(key)).toBe(slot);
  });

  it("hashes only what is between the first { and the next }", () => {
    expect(hashSlot("foo{bar}{zap}")).toBe(hashSlot("bar"));
    expect(hashSlot("foo{{bar}}zap")).toBe(hashSlot("{bar"));
    expect(hashSlot("foo{}{bar}")).not.toBe(hashSlot("bar"));
  });
});

describe("errors", () => {
  const reply = (message: string) => Object.assign(new Error(message), { name: "ReplyError" });

  it.each([
    [reply("OOM command not allowed when used memory > 'maxmemory'."), "out_of_memory", false],
    [
      reply("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"),
      "out_of_memory",
      false,
    ],
    [reply("LOADING Redis is loading the dataset in memory"), "unavailable", true],
    [reply("READONLY You can't write against a read only replica. script: x, on @user_script:1."), "unavailable", true],
    [reply("TRYAGAIN Multiple keys request during rehashing of slot"), "unavailable", true],
    [reply("CLUSTERDOWN Hash slot not served"), "unavailable", true],
    [reply("MASTERDOWN Link with MASTER is down"), "unavailable", true],
    [reply("BUSY Redis is busy running a script."), "unavailable", true],
    [reply("MISCONF Redis is configured to save RDB snapshots"), "unavailable", false],
    [reply("NOREPLICAS Not enough good replicas to write."), "unavailable", false],
    [reply("ERR max number of clients reached"), "unavailable", true],
    [reply("NOAUTH Authentication required."), "denied", false],
    [reply("WRONGPASS invalid username-password pair"), "denied", false],
    [reply("NOPERM this user has no permissions"), "denied", false],
    [reply("ERR The user executing the script can't run this command or subcommand"), "denied", false],
    [reply("CROSSSLOT Keys in request don't hash to the same slot"), "script", false],
    [reply("WRONGTYPE Operation against a key"), "script", false],
    [reply("ERR user_script:3: attempt to index a nil value"), "script", false],
    [new Error("Connection is closed."), "unavailable", true],
    [Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:1"), { code: "ECONNREFUSED" }), "unavailable", true],
    [new Error("Too many Cluster redirections. Last error: ReplyError: TRYAGAIN Multiple keys"), "unavailable", true],
    [new Error("Too many Cluster redirections. Last error: Error: Connection is closed."), "unavailable", true],
    [
      new Error("All sentinels are unreachable. Retrying from scratch after 10ms. Last error: NOAUTH x"),
      "denied",
      false,
    ],
    [
      Object.assign(new Error("Failed to refresh slots cache."), { lastNodeError: reply("WRONGPASS x") }),
      "denied",
      false,
    ],
    ["not even an error", "unavailable", true],
  ])("%s", (thrown, kind, retry) => {
    expect(classify(thrown)).toMatchObject({ error: { kind }, retry });
  });

  it("keep the original as cause, without the arguments of its command", () => {
    const original = Object.assign(reply("WRONGPASS x"), { command: { name: "auth", args: ["secret"] } });
    const { error } = classify(original);
    expect(error.cause).toBe(original);
    expect(inspect(error, { depth: 10 })).not.toContain("secret");
    const nested = Object.assign(new Error("Failed to refresh slots cache."), {
      lastNodeError: Object.assign(reply("WRONGPASS x"), { command: { name: "auth", args: ["secret"] } }),
    });
    expect(inspect(classify(nested).error, { depth: 10 })).not.toContain("secret");
  });
});

describe("a deadline", () => {
  const none = () => undefined;

  it("rejects with timeout while a reply is due, otherwise with unavailable and the reason", async () => {
    const never = new Promise(() => undefined);
    const waiting = createDeadline(5, none);
    waiting.awaitingReply = true;
    await expect(waiting.race(never)).rejects.toMatchObject({ kind: "timeout" });
    const cause = new Error("connect ECONNREFUSED");
    const held = createDeadline(5, () => new StoreError("unavailable", "connect ECONNREFUSED", { cause }));
    await expect(held.race(never)).rejects.toMatchObject({ kind: "unavailable", cause, message: /ECONNREFUSED/ });
  });

  it("wakes all waiting callers, which then listen no longer; later callers do not wait", async () => {
    const deadline = createDeadline(5, none);
    const changes = new EventEmitter();
    await Promise.all([deadline.nextChange(changes), deadline.nextChange(changes)]);
    await deadline.until(new Promise(() => undefined));
    expect(changes.listenerCount("change")).toBe(0);
  });
});
