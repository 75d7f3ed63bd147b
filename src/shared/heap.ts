/** How full the heap is. The process ends when the old generation is full: objects that outlived a garbage collection. */
import { getHeapSpaceStatistics, getHeapStatistics } from "node:v8";

const OLD_SPACE_FLAG = /--max[-_]old[-_]space[-_]size=(\d+)/g;
const MEGABYTE = 1_048_576;

/** `flags`: those of the command line and of NODE_OPTIONS. The first of these takes precedence, and the last of a list. */
export function oldSpaceLimit(flags: readonly string[], heapLimit: number): number {
  for (const text of flags) {
    const megabytes = [...text.matchAll(OLD_SPACE_FLAG)].at(-1)?.[1];
    if (megabytes !== undefined) return Number(megabytes) * MEGABYTE;
  }
  // Includes the young generation, which is small in comparison if the limit is a large default.
  return heapLimit;
}

const limit = oldSpaceLimit(
  [process.execArgv.join(" "), process.env.NODE_OPTIONS ?? ""],
  getHeapStatistics().heap_size_limit,
);

/** From 0 to 1. */
export function heapShare(): number {
  let used = 0;
  for (const { space_name, space_used_size } of getHeapSpaceStatistics()) {
    if (!space_name.startsWith("new_")) used += space_used_size;
  }
  return used / limit;
}
