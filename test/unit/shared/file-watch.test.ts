/** A watched file is reported when it has stopped changing. The polling is real, the time that it must rest is driven. */
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
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

it("a file that is written in pieces is reported once, after the last piece", async () => {
  const file = join(folder, "tollgate.yaml");
  writeFileSync(file, "first\n");
  const clock = createDrivenClock();
  let reports = 0;
  stop = watchFile(file, clock, () => reports++);
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
