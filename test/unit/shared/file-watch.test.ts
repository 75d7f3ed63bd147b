/** A watched file is reported when it has stopped changing. The polling is real, the time that it must rest is driven. */
import {
  appendFileSync,
  mkdtempSync,
  rmSync,
  statSync,
  unwatchFile,
  watchFile as watchState,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { watchFile } from "../../../src/shared/file-watch.js";
import { createDrivenClock } from "../../../src/simulate/driven-clock.js";
import { waitFor } from "../../support/wait-for.js";

let folder: string;
let stop = () => {};
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tollgate-watch-"));
});
afterEach(() => {
  stop();
  rmSync(folder, { recursive: true });
});

/** Changes before Node's first look at the file are not noticed, so it is changed until one is. */
async function untilWatched(file: string): Promise<void> {
  let seen = -1;
  const note = ({ size }: { size: number | bigint }) => {
    seen = Number(size);
  };
  // Watchers of the same file share their looks, and the type of their numbers.
  watchState(file, note);
  let changedAt = 0;
  await waitFor("a change to be noticed", () => {
    if (seen === statSync(file).size) return true;
    if (Date.now() - changedAt > 2_000) {
      changedAt = Date.now();
      appendFileSync(file, "more\n");
    }
    return false;
  });
  unwatchFile(file, note);
}

it("a file that is written in pieces is reported once, after the last piece", async () => {
  const file = join(folder, "tollgate.yaml");
  writeFileSync(file, "first\n");
  const clock = createDrivenClock();
  let reports = 0;
  stop = watchFile(file, clock, () => reports++);
  await untilWatched(file);
  for (let piece = 1; piece <= 3; piece++) {
    const before = clock.nextAt();
    // The next report would be due later than this.
    clock.moveTo(clock.now() + 10);
    appendFileSync(file, `piece ${piece}\n`);
    await waitFor("the change to be noticed", () => clock.nextAt() !== before);
    expect(reports).toBe(0);
  }
  clock.runNext();
  expect(reports).toBe(1);
  expect(clock.nextAt()).toBe(Number.POSITIVE_INFINITY);
});
