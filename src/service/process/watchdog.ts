/**
 * Finds workers that do not respond: stopped, blocked or in an endless loop. A worker is judged only by seconds in which the
 * primary was on time itself, so that a suspended or busy machine does not make it look unresponsive.
 */
import { readFileSync } from "node:fs";
import type { Clock } from "../../shared/clock.js";

export interface WatchdogOptions {
  clock: Clock;
  /** Asks a worker for a sign of life. */
  ping(worker: number): void;
  /** A worker does not respond, or responds again. */
  changed(worker: number, isSilent: boolean): void;
  /** A worker has not responded for too long: replace it. */
  replace(worker: number, silentSeconds: number): void;
  /** Default: reads /proc. */
  activityOf?: typeof activityOf;
}

const INTERVAL_MS = 1_000;
/** Missed replies, one per second, after which a worker is reported. */
const SILENT_AFTER = 3;
/** After which it is replaced, if it does not run at all meanwhile. */
const STUCK_AFTER = 10;
/** After which it is replaced although it runs: it may be applying a very large configuration, or starved by other processes. */
const REPLACED_AFTER = 60;

interface Watched {
  pid: number;
  /** Since the last ping. */
  replied: boolean;
  missed: number;
  /** The missed replies since it last ran. */
  idle: number;
  activity: number;
}

export function createWatchdog({ clock, ping, changed, replace, ...options }: WatchdogOptions) {
  const activity = options.activityOf ?? activityOf;
  const workers = new Map<number, Watched>();
  let dueAt = clock.now() + INTERVAL_MS;
  let stopTimer = clock.after(INTERVAL_MS, tick);

  function tick(): void {
    const now = clock.now();
    // Late by a whole interval: a reply of the same time may not have been read yet.
    const isLate = now - dueAt >= INTERVAL_MS;
    dueAt = now + INTERVAL_MS;
    stopTimer = clock.after(INTERVAL_MS, tick);
    for (const [number, worker] of [...workers]) examine(number, worker, isLate);
  }

  function examine(number: number, worker: Watched, isLate: boolean): void {
    const before = worker.activity;
    worker.activity = activity(worker.pid);
    if (worker.replied) {
      [worker.missed, worker.idle] = [0, 0];
    } else if (!isLate) {
      worker.missed++;
      worker.idle = worker.activity === before ? worker.idle + 1 : 0;
      if (worker.missed === SILENT_AFTER) changed(number, true);
      if (worker.idle >= STUCK_AFTER || worker.missed >= REPLACED_AFTER) {
        workers.delete(number);
        replace(number, worker.missed);
        return;
      }
    }
    worker.replied = false;
    ping(number);
  }

  return {
    started(number: number, pid: number): void {
      workers.set(number, { pid, replied: true, missed: 0, idle: 0, activity: 0 });
    },
    replied(number: number): void {
      const worker = workers.get(number);
      if (worker === undefined) return;
      if (worker.missed >= SILENT_AFTER) changed(number, false);
      worker.replied = true;
      worker.missed = 0;
    },
    ended: (number: number) => void workers.delete(number),
    close: () => stopTimer(),
  };
}

let unknown = 0;

/** A number that changes while a process runs or waits for a processor. Without /proc it always changes. */
export function activityOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in parentheses may contain spaces.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // Ready to run, or in a system call that cannot be interrupted.
    if (fields[0] === "R" || fields[0] === "D") return ++unknown;
    return -(Number(fields[11]) + Number(fields[12]));
  } catch {
    return ++unknown;
  }
}
