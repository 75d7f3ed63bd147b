/** Parses the times of logs to milliseconds since 1970. */

export interface LogTime {
  /** NaN if invalid. */
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
  const parts = ISO.exec(text);
  if (parts === null) return INVALID;
  const [, date, time, fraction = "", zone] = parts;
  const ms = Date.parse(`${date}T${time}${zone || "Z"}`);
  return { ms: fraction === "" ? ms : ms + Number(`0.${fraction}`) * 1000, coarse: fraction === "" };
}

/** 28/Jul/2026:12:00:00 +0200 */
export function readClfTime(text: string): LogTime {
  const parts = CLF.exec(text);
  if (parts === null) return INVALID;
  const [, day, name = "", year, time, hours, minutes] = parts;
  const month = String(MONTHS.indexOf(name) + 1).padStart(2, "0");
  return { ms: Date.parse(`${year}-${month}-${day}T${time}${hours}:${minutes}`), coarse: true };
}

/** Either format, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970. */
export function readAnyTime(value: unknown): LogTime {
  if (typeof value === "number") return readNumber(value);
  if (typeof value !== "string") return INVALID;
  if (/^[0-9]+(\.[0-9]+)?$/.test(value)) return readNumber(Number(value));
  return value[2] === "/" ? readClfTime(value) : readIsoTime(value);
}

function readNumber(value: number): LogTime {
  if (!(value > 0)) return INVALID;
  if (value < MAX_SECONDS) return { ms: value * 1000, coarse: Number.isInteger(value) };
  const divisor = value < MAX_SECONDS * 1e3 ? 1 : value < MAX_SECONDS * 1e6 ? 1e3 : 1e6;
  return { ms: value / divisor, coarse: false };
}
