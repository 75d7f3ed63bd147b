/** Fuzzes one target in its own process: `child.ts TARGET SEED SECONDS FILE`. Each input is in the file before it runs. */
import { openSync, writeSync } from "node:fs";
import { fuzz } from "./loop.js";
import { targets } from "./targets/targets.js";

export interface Progress {
  inputs: number;
  failures: { input: string; reason: string }[];
  isLast: boolean;
}

const PROGRESS_MS = 250;

const [name = "", seed, seconds, path = ""] = process.argv.slice(2);
const file = openSync(path, "w");
const head = Buffer.alloc(4);
const endsAt = Date.now() + Number(seconds) * 1_000;
let reported = 0;

function report(progress: Progress): void {
  process.send?.(progress);
}

process.on("uncaughtException", (error) => {
  console.error(error);
  process.exit(1);
});

const { inputs, failures } = await fuzz(targets[name]!, {
  seed: Number(seed),
  goOn(done) {
    const now = Date.now();
    if (now - reported > PROGRESS_MS) {
      reported = now;
      report({ inputs: done, failures: [], isLast: false });
    }
    return now < endsAt;
  },
  next(input) {
    head.writeUInt32BE(input.length);
    writeSync(file, head, 0, 4, 0);
    writeSync(file, input, 0, input.length, 4);
  },
});
const listed = failures.map(({ input, reason }) => ({ input: input.toString("base64"), reason }));
report({ inputs, failures: listed, isLast: true });
process.disconnect?.();
