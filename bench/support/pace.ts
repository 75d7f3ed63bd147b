/** Sends requests at an even rate. */

/** Requests that are later than this are not made up for: the process is overloaded. */
const MOST_LATE_MS = 1_000;
export interface Pace {
  perSecond: number;
  /** Until this time is over. */
  seconds: number;
  /** Or until this many were sent. */
  most?: number;
}

/** Calls `send` at an even rate and returns how often it was called. */
export async function pace(
  { perSecond, seconds, most = Number.POSITIVE_INFINITY }: Pace,
  send: () => void,
): Promise<number> {
  const started = performance.now();
  const mostLate = Math.ceil((perSecond * MOST_LATE_MS) / 1000);
  let sent = 0;
  let dropped = 0;
  for (;;) {
    const elapsed = performance.now() - started;
    const planned = Math.floor((Math.min(elapsed, seconds * 1000) * perSecond) / 1000);
    dropped = Math.max(dropped, planned - sent - mostLate);
    const until = Math.min(planned - dropped, most);
    for (; sent < until; sent++) send();
    if (sent >= most || elapsed >= seconds * 1000) return sent;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
