/** The time of a reply does not include the time for which this process could not read it. */
import { describe, expect, it } from "vitest";
import { replyDeadline, startReplyTimer } from "../../../src/shared/reply-timer.js";
import { pause } from "../../support/wait-for.js";

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

describe("the time of a reply", () => {
  it("excludes a pause of this process, before and after the call was written", async () => {
    const early = startReplyTimer();
    block(200);
    await nextTurn();
    expect(early.end()).toBeLessThan(100);
    const late = startReplyTimer();
    await nextTurn();
    block(200);
    expect(late.missingMs()).toBeLessThan(100);
    expect(late.end()).toBeLessThan(100);
  });

  it("includes all the time in which this process looked for it", async () => {
    const timer = startReplyTimer();
    const started = performance.now();
    for (let i = 0; i < 10; i++) {
      await pause(10);
      block(10);
    }
    await pause(10);
    await nextTurn();
    // The last look may have been before the last pause.
    const passed = performance.now() - started;
    expect(timer.missingMs()).toBeGreaterThan(100);
    expect(timer.end()).toBeLessThanOrEqual(passed + 5);
  });
});

describe("the deadline of a reply", () => {
  it("is not reached by a reply that arrives while this process is paused", async () => {
    let expired = false;
    const cancel = replyDeadline(50, () => {
      expired = true;
    });
    await nextTurn();
    block(200);
    await nextTurn();
    expect(expired).toBe(false);
    cancel();
    await pause(100);
    expect(expired).toBe(false);
  });

  it.each([1, 5, 50])("of %i ms is reached without a reply", async (ms) => {
    await new Promise<void>((resolve) => replyDeadline(ms, resolve));
  });
});
