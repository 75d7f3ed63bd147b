/** Methods, sizes and durations as logs write them. */

/** Interned, because a method cut from a line would keep a whole chunk of the log in memory. */
const METHODS = new Map(
  ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"].map((name) => [name, name]),
);

/** Undefined: not a valid method. */
export function readMethod(text: string): string | undefined {
  return METHODS.get(text) ?? (/^[A-Za-z][!#$%&'*+.^_`|~0-9A-Za-z-]{0,31}$/.test(text) ? text : undefined);
}

/** A size in bytes; 0 for "-" and "", -1 if it is not an integer. */
export function readSize(text: string): number {
  if (text === "-" || text === "") return 0;
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : -1;
}

/** Milliseconds; 0 for "-" and "", -1 if it is not a number. */
export function readDuration(text: string, unitMs: number): number {
  if (text === "-" || text === "") return 0;
  return /^[0-9]{1,15}(\.[0-9]{1,15})?$/.test(text) ? Number(text) * unitMs : -1;
}
