/** Runs a history on the embedded store, then the same calls on another store: all replies must be equal. */
import { expect } from "vitest";
import { type DrivenStore, drivenEmbeddedStore } from "./driven-store.js";

export async function playOnBoth(other: DrivenStore, play: (store: DrivenStore) => Promise<void>): Promise<void> {
  const embedded = drivenEmbeddedStore();
  const recorded: { call: Parameters<DrivenStore["run"]>; now: number }[] = [];
  await play({
    ...embedded,
    run: (...call) => {
      recorded.push({ call, now: embedded.clock.now });
      return embedded.run(...call);
    },
  });
  const got = [];
  for (const { call, now } of recorded) {
    other.clock.now = now;
    got.push(await other.run(...call));
  }
  expect(got).toEqual(embedded.calls.map(({ reply }) => reply));
}
