/** Reports changes of a file, including replacement by rename, once it has stopped changing. */
import { type FSWatcher, statSync, watch } from "node:fs";
import { dirname } from "node:path";
import type { Clock } from "../../shared/clock.js";
import type { Unsubscribe } from "../../store/store.js";

export interface FileWatchOptions {
  file: string;
  clock: Clock;
  changed(): void;
  /** Wait this long after the last change, because the file may still be written. Default 100. */
  settleMs?: number;
  /** Polling interval, for changes that the system does not report: symbolic links, network file systems. Default 2,000. */
  pollMs?: number;
}

export function watchFile({ file, clock, changed, settleMs = 100, pollMs = 2_000 }: FileWatchOptions): Unsubscribe {
  let known = stateOf(file);
  let latest = known;
  let closed = false;
  let watcher: FSWatcher | undefined;
  let stopWaiting: (() => void) | undefined;
  let stopPolling = () => {};
  listen();
  poll();

  /** Watches the directory: a watch on the file would be lost when another file is renamed to it. */
  function listen(): void {
    try {
      watcher = watch(dirname(file), { persistent: false }, look);
      watcher.on("error", closeWatcher);
    } catch {
      closeWatcher();
    }
  }

  function closeWatcher(): void {
    watcher?.close();
    watcher = undefined;
  }

  function poll(): void {
    if (watcher === undefined) listen();
    look();
    stopPolling = clock.after(pollMs, poll);
  }

  function look(): void {
    if (closed) return;
    const state = stateOf(file);
    // Other files of the directory may change at any time.
    if (state === latest && stopWaiting !== undefined) return;
    latest = state;
    stopWaiting?.();
    stopWaiting = undefined;
    if (state !== known) stopWaiting = clock.after(settleMs, settled);
  }

  function settled(): void {
    stopWaiting = undefined;
    const state = stateOf(file);
    if (state !== latest) {
      look();
      return;
    }
    known = state;
    changed();
  }

  return () => {
    closed = true;
    stopWaiting?.();
    stopPolling();
    watcher?.close();
  };
}

/** Follows symbolic links. */
function stateOf(file: string): string {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(file, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(":");
  } catch {
    return "gone";
  }
}
