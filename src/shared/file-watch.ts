/** Reports changes of a file, including replacement by rename or behind a symbolic link, once it has stopped changing. */
import { unwatchFile, watchFile as watchState } from "node:fs";
import type { Clock } from "./clock.js";

/** Polls, because events are not reported for symbolic links and network file systems. */
const POLL_MS = 200;
/** Longer than the polling interval: a file that is still being written is not read. */
const SETTLE_MS = 300;
/** A change before the first poll is not noticed, so the file is read once more. */
const FIRST_LOOK_MS = 1_000;

export function watchFile(file: string, clock: Clock, changed: () => void): () => void {
  let stopWaiting = () => {};
  const look = () => {
    stopWaiting();
    stopWaiting = clock.after(SETTLE_MS, changed);
  };
  stopWaiting = clock.after(FIRST_LOOK_MS, look);
  watchState(file, { interval: POLL_MS, persistent: false, bigint: true }, look);
  return () => {
    stopWaiting();
    unwatchFile(file, look);
  };
}
