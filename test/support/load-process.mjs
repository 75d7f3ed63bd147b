/** Preloaded into a process under test. SIGUSR2: starts or stops to block its event loop. SIGWINCH: fills or empties its heap. */
import { setTimeout as wait } from "node:timers/promises";

/** Timers that are due during a block are late by most of it. */
const BLOCK_MS = 400;
const HEAP_BYTES = 60 * 1_048_576;
let blocking = false;
let held = [];

process.on("SIGUSR2", async () => {
  blocking = !blocking;
  while (blocking) {
    const end = performance.now() + BLOCK_MS;
    while (performance.now() < end);
    await wait(1);
  }
});
process.on("SIGWINCH", () => {
  if (held.length === 0)
    for (let bytes = 0; bytes < HEAP_BYTES; bytes += 8_000) held.push(new Array(1_000).fill(bytes + 0.5));
  else {
    held = [];
    globalThis.gc();
  }
});
