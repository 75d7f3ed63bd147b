/** Options of overload protection: when a process refuses new work with 503. */
import { amount, milliseconds, section, whole } from "../values.js";

export const overload = section({
  loop_lag_ms: milliseconds(0, 60_000)
    .default(500)
    .describe(
      "Refuse a growing share of new work while the event loop is later than this in all of the last five measurements, at 100 ms each; 0: never.",
    ),
  heap: amount(0, 1)
    .default(0.85)
    .describe(
      "Refuse new work while the old generation of the heap is above this share of its limit (`--max-old-space-size`); 0: never.",
    ),
  memory_mb: whole(0, 10_000_000)
    .default(0)
    .describe("Refuse new work while the resident memory of the process is above this; 0: never."),
  files: amount(0, 1)
    .default(0.9)
    .describe(
      "Refuse new work while open files are above this share of their limit (`ulimit -n`; Linux 6.2); 0: never.",
    ),
});
