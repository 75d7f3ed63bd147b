/** Detects that this process is overloaded, by event loop lag, heap, memory and open files, and says which new work to refuse. */
import { getHeapSpaceStatistics, getHeapStatistics } from "node:v8";
import { type Clock, systemClock } from "./clock.js";
import type { Log } from "./log.js";
import { openFiles, openFilesLimit } from "./open-files.js";

/** 0 turns a limit off. */
export interface OverloadLimits {
  /** Milliseconds. */
  loopLagMs: number;
  /** Share of the old generation of the heap. */
  heap: number;
  /** Resident memory in MB. */
  memoryMb: number;
  /** Share of the limit of open files. */
  files: number;
}

export type OverloadCause = "loop_lag" | "heap" | "memory" | "files";

export interface OverloadState {
  /** Share of new work that is refused; 0: not overloaded. */
  share: number;
  causes: OverloadCause[];
}

export interface Overload {
  /** Whether to refuse one piece of new work. */
  sheds(): boolean;
  isActive(): boolean;
  state(): OverloadState;
  close(): void;
}

export interface OverloadOptions {
  /** Read at each measurement. */
  limits(): OverloadLimits;
  log: Log;
  clock?: Clock;
}

const SAMPLE_MS = 100;
/** The smallest lag of this many samples counts, so that a single pause is no overload. */
const SAMPLES = 5;
/** Overload ends below this part of a limit. */
const RELIEVED = 0.8;
/** Of the share that is refused, at each sample with too much lag, and at each one after it. */
const RISE = 0.1;
const FALL = 0.02;

export function createOverload({ limits, log, clock = systemClock }: OverloadOptions): Overload {
  const lags: number[] = [];
  const maxFiles = openFilesLimit();
  /** Too high, and not yet below the limit by the margin. */
  const full = new Set<OverloadCause>();
  let lagShare = 0;
  let rssMb = 0;
  let due = clock.now() + SAMPLE_MS;
  let carried = 0;
  let isActive = false;
  let cancel = clock.after(SAMPLE_MS, sample);

  function sample(): void {
    const now = clock.now();
    lags.push(Math.max(now - due, 0));
    if (lags.length > SAMPLES) lags.shift();
    due = now + SAMPLE_MS;
    cancel = clock.after(SAMPLE_MS, sample);
    measure();
  }

  function measure(): void {
    const { loopLagMs, heap, memoryMb, files } = limits();
    const heapUsed = heap === 0 ? 0 : heapShare();
    const lagMs = lags.length < SAMPLES ? 0 : Math.min(...lags);
    if (memoryMb > 0) rssMb = residentMb() ?? rssMb;
    const open = files === 0 || maxFiles === 0 ? 0 : openFiles() / maxFiles;
    compare("heap", heapUsed, heap);
    compare("memory", rssMb, memoryMb);
    compare("files", open, files);
    compare("loop_lag", lagMs, loopLagMs);
    if (loopLagMs === 0) lagShare = 0;
    else if (lagMs > loopLagMs) lagShare = Math.min(lagShare + RISE, 1);
    else if (!full.has("loop_lag")) lagShare = Math.max(lagShare - FALL, 0);
    report({ lag_ms: Math.round(lagMs), heap: heapUsed, memory_mb: rssMb, files: open });
  }

  function compare(cause: OverloadCause, value: number, limit: number): void {
    if (limit > 0 && value > limit) full.add(cause);
    else if (limit === 0 || value < limit * RELIEVED) full.delete(cause);
  }

  function report(values: Record<string, number>): void {
    const { share, causes } = state();
    if (share > 0 === isActive) return;
    isActive = share > 0;
    if (isActive) log.warn({ causes, ...values }, "overloaded: refusing new work");
    else log.info(values, "no longer overloaded");
  }

  /** Lag falls when less is admitted, so its share is adapted. The other limits are absolute. */
  function state(): OverloadState {
    const isFull = full.has("heap") || full.has("memory") || full.has("files");
    const causes = [...full];
    if (lagShare > 0 && !full.has("loop_lag")) causes.push("loop_lag");
    const share = isFull ? 1 : lagShare;
    return { share, causes: share > 0 ? causes : [] };
  }

  return {
    sheds() {
      if (!isActive) return false;
      // Spreads the refusals evenly.
      carried += state().share;
      if (carried < 1) return false;
      carried -= 1;
      return true;
    },
    isActive: () => isActive,
    state,
    close: () => cancel(),
  };
}

/** Undefined if it cannot be read: that needs a descriptor. */
function residentMb(): number | undefined {
  try {
    return process.memoryUsage.rss() / 1_048_576;
  } catch {
    return undefined;
  }
}

const OLD_SPACE_FLAG = /--max[-_]old[-_]space[-_]size=(\d+)/g;
const MEGABYTE = 1_048_576;

/** `flags`: the command line, then NODE_OPTIONS. The first text with the flag counts, and in it the last occurrence. */
export function oldSpaceLimit(flags: readonly string[], total: number): number {
  for (const text of flags) {
    const megabytes = [...text.matchAll(OLD_SPACE_FLAG)].at(-1)?.[1];
    if (megabytes !== undefined) return Number(megabytes) * MEGABYTE;
  }
  // Includes the young generation, which is small in comparison if the limit is a large default.
  return total;
}

const heapLimit = oldSpaceLimit(
  [process.execArgv.join(" "), process.env.NODE_OPTIONS ?? ""],
  getHeapStatistics().heap_size_limit,
);

/** How full the heap is, from 0 to 1. The process ends when the old generation is full: objects that outlived a garbage collection. */
export function heapShare(): number {
  let used = 0;
  for (const { space_name, space_used_size } of getHeapSpaceStatistics()) {
    if (!space_name.startsWith("new_")) used += space_used_size;
  }
  return used / heapLimit;
}
