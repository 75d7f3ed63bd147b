/** Times, methods and numbers as logs write them. */

export interface LogTime {
  /** Milliseconds since 1970; NaN if invalid. */
  ms: number;
  /** Without a fraction of a second. */
  coarse: boolean;
}

const INVALID: LogTime = { ms: Number.NaN, coarse: true };
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const ISO = /^([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]*))?(.*)$/;
const CLF = /^([0-9]{2})\/([A-Z][a-z]{2})\/([0-9]{4}):([0-9]{2}:[0-9]{2}:[0-9]{2}) ([+-][0-9]{2})([0-9]{2})$/;
/** Larger numbers are in milliseconds, microseconds or nanoseconds. */
const MAX_SECONDS = 1e11;

/** 2026-07-28T12:00:00.123Z with any offset; without one, UTC. */
export function readIsoTime(text: string): LogTime {
  const [, date, time, fraction = "", zone] = ISO.exec(text) ?? [];
  const ms = Date.parse(`${date}T${time}${zone || "Z"}`);
  return { ms: fraction === "" ? ms : ms + Number(`0.${fraction}`) * 1000, coarse: fraction === "" };
}

/** 28/Jul/2026:12:00:00 +0200 */
export function readClfTime(text: string): LogTime {
  const [, day, name = "", year, time, hours, minutes] = CLF.exec(text) ?? [];
  const month = String(MONTHS.indexOf(name) + 1).padStart(2, "0");
  return { ms: Date.parse(`${year}-${month}-${day}T${time}${hours}:${minutes}`), coarse: true };
}

/** Either format, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970. */
export function readAnyTime(value: unknown): LogTime {
  if (typeof value === "string" && !/^[0-9]+(\.[0-9]+)?$/.test(value)) {
    return value[2] === "/" ? readClfTime(value) : readIsoTime(value);
  }
  const number = typeof value === "string" ? Number(value) : value;
  if (typeof number !== "number" || !(number > 0)) return INVALID;
  if (number < MAX_SECONDS) return { ms: number * 1000, coarse: Number.isInteger(number) };
  const divisor = number < MAX_SECONDS * 1e3 ? 1 : number < MAX_SECONDS * 1e6 ? 1e3 : 1e6;
  return { ms: number / divisor, coarse: false };
}

/** Interned, because a method cut from a line would keep a whole chunk of the log in memory. */
const METHODS = new Map(
  ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"].map((name) => [name, name]),
);

/** Undefined: not a valid method. */
export function readMethod(text: string): string | undefined {
  return METHODS.get(text) ?? (/^[A-Za-z][!#$%&'*+.^_`|~0-9A-Za-z-]{0,31}$/.test(text) ? text : undefined);
}

/** A number from 0 on, also as text; 0 for "-", "" and undefined, NaN if it is not a number. */
export function readNumber(value: unknown): number {
  if (value === undefined || value === "-" || value === "") return 0;
  const isText = typeof value === "string" && /^[0-9]{1,15}(\.[0-9]{1,15})?$/.test(value);
  const number = isText || typeof value === "number" ? Number(value) : Number.NaN;
  return number >= 0 && number < 1e15 ? number : Number.NaN;
}
