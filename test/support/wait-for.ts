/** Waits until a condition holds, and fails with the last result. */

export interface WaitOptions {
  withinMs?: number;
  everyMs?: number;
}

/** Calls `look` until it returns something other than undefined or false. An error counts as not yet. */
export async function waitFor<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  { withinMs = 60_000, everyMs = 20 }: WaitOptions = {},
): Promise<T> {
  const end = Date.now() + withinMs;
  let last: unknown;
  for (;;) {
    try {
      const seen = await look();
      if (seen !== undefined && seen !== false) return seen;
      last = seen;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`waited ${withinMs} ms for ${what}, last: ${String(last)}`, { cause: last });
    await pause(everyMs);
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
