/** A worker that does not respond is reported and replaced; a machine that was suspended or busy replaces none. */
import { describe, expect, it } from "vitest";
import { createWatchdog } from "../../../../src/service/process/watchdog.js";

/** Time passes only by `second`; timers can be late. */
function world() {
  let now = 0;
  let timer: (() => void) | undefined;
  let runs = true;
  let activity = 0;
  const events: string[] = [];
  const replying = new Set([1, 2]);
  const watchdog = createWatchdog({
    clock: {
      now: () => now,
      after(_ms, work) {
        timer = work;
        return () => (timer = undefined);
      },
    },
    ping(worker) {
      if (replying.has(worker)) watchdog.replied(worker);
    },
    changed: (worker, isSilent) => events.push(`${worker} ${isSilent ? "silent" : "responds"}`),
    replace: (worker) => events.push(`${worker} replaced`),
    activityOf: () => (runs ? ++activity : activity),
  });
  watchdog.started(1, 101);
  watchdog.started(2, 102);
  function second(count: number, lateMs = 0): void {
    for (let i = 0; i < count; i++) {
      now += 1_000 + lateMs;
      timer?.();
    }
  }
  return {
    events,
    replying,
    second,
    watchdog,
    stopRunning: () => (runs = false),
    isWatching: () => timer !== undefined,
  };
}

describe("a worker that does not respond", () => {
  it("and does not run is reported after 3 s and replaced after 10 s", () => {
    const { events, replying, second, stopRunning } = world();
    second(100);
    stopRunning();
    replying.delete(1);
    second(1);
    second(2);
    expect(events).toEqual([]);
    second(1);
    expect(events).toEqual(["1 silent"]);
    second(7);
    expect(events).toEqual(["1 silent", "1 replaced"]);
    second(100);
    expect(events).toHaveLength(2);
  });

  it("but runs is replaced after a minute", () => {
    const { events, replying, second } = world();
    replying.delete(2);
    second(60);
    expect(events).toEqual(["2 silent"]);
    second(1);
    expect(events).toEqual(["2 silent", "2 replaced"]);
  });

  it("for a while is not replaced once it responds again", () => {
    const { events, replying, second, stopRunning } = world();
    stopRunning();
    replying.delete(1);
    second(9);
    replying.add(1);
    second(100);
    expect(events).toEqual(["1 silent", "1 responds"]);
  });

  it("is not blamed for seconds in which the primary was late itself, or the machine suspended", () => {
    const { events, replying, second, stopRunning } = world();
    stopRunning();
    replying.clear();
    second(1);
    second(50, 2_000);
    second(1, 3_600_000);
    expect(events).toEqual([]);
    replying.add(1).add(2);
    second(20);
    expect(events).toEqual([]);
  });

  it("is forgotten when it ends, and nobody is watched after the end", () => {
    const { events, replying, second, watchdog, isWatching } = world();
    replying.clear();
    watchdog.ended(1);
    watchdog.ended(2);
    second(100);
    expect(events).toEqual([]);
    watchdog.close();
    expect(isWatching()).toBe(false);
  });
});
