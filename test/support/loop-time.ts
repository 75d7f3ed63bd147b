/**
 * Time as this process experienced it: counts ticks of the event loop. When the machine is busy with other processes,
 * ticks come late and are fewer, exactly like the timers of the code under test. So a test can assert that a deadline
 * was kept without measuring how busy the machine is.
 */
const TICK_MS = 5;

let ticks = 0;
let ticking = false;

/** Milliseconds, never more than have passed on the wall clock since the first call. */
export function loopMs(): number {
  if (!ticking) {
    ticking = true;
    setInterval(() => ticks++, TICK_MS).unref();
  }
  return ticks * TICK_MS;
}
