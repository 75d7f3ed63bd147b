/** Errors in work that no caller waits for: they are reported, and the work goes on. */
import { expect, it, vi } from "vitest";

/** A fresh module: what one test sets must not stay. */
async function fresh() {
  vi.resetModules();
  return import("../../../src/shared/background.js");
}

it("without a handler, as in the library, errors are thrown", async () => {
  const { runInBackground } = await fresh();
  expect(() =>
    runInBackground("timer", () => {
      throw new Error("bug");
    }),
  ).toThrow("bug");
});

it("with a handler, a timer goes on after an error, even if the handler fails, too", async () => {
  const { every, runInBackground, surviveErrors } = await fresh();
  const { systemClock } = await import("../../../src/shared/clock.js");
  const before = process.listeners("unhandledRejection");
  const seen: string[] = [];
  surviveErrors((task, error) => {
    seen.push(`${task}: ${(error as Error).message}`);
    throw new Error("the log is full");
  });
  let ticks = 0;
  await new Promise<void>((resolve) => {
    const stop = every(1, () => {
      if (++ticks < 3) throw new Error(`tick ${ticks}`);
      stop();
      resolve();
    });
  });
  await new Promise<void>((resolve) => {
    systemClock.after(1, () => {
      setTimeout(resolve, 1);
      throw new Error("once");
    });
  });
  expect(runInBackground("report", () => undefined)).toBe(true);
  expect(seen).toEqual(["timer: tick 1", "timer: tick 2", "timer: once"]);
  for (const listener of process.listeners("unhandledRejection")) {
    if (!before.includes(listener)) process.off("unhandledRejection", listener);
  }
});
