/** Parses the times of logs. Caches the last second, because consecutive lines often share it. */

export interface TimeReader {
  /** 2026-07-28T12:00:00.123Z with any offset; without one, UTC. NaN if invalid. */
  iso(text: string): number;
  /** 28/Jul/2026:12:00:00 +0200 */
  clf(text: string): number;
  /** Either of them, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970. */
  any(value: unknown): number;
  /** The last time had no fraction of a second. */
  readonly coarse: boolean;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/** Larger numbers are in milliseconds, microseconds or nanoseconds. */
const MAX_SECONDS = 1e11;
/** Length of 2026-07-28T12:00:00. */
const ISO_LENGTH = 19;

export function createTimeReader(): TimeReader {
  let coarse = false;
  let isoSecond = "";
  let isoZone = "";
  let isoMs = Number.NaN;
  let clfText = "";
  let clfMs = Number.NaN;

  function iso(text: string): number {
    let end = ISO_LENGTH;
    const mark = text.charCodeAt(ISO_LENGTH);
    const fraction = mark === 0x2e || mark === 0x2c;
    if (fraction) {
      end++;
      while (isDigit(text.charCodeAt(end))) end++;
    }
    const second = text.slice(0, ISO_LENGTH);
    const zone = text.slice(end);
    if (second !== isoSecond || zone !== isoZone) {
      isoMs = isIsoSecond(second) ? Date.parse(second.replace(" ", "T") + (zone === "" ? "Z" : zone)) : Number.NaN;
      // Slices would keep a whole chunk of the log in memory.
      isoSecond = copyOf(second);
      isoZone = copyOf(zone);
    }
    coarse = !fraction || end === ISO_LENGTH + 1;
    return coarse ? isoMs : isoMs + Number(`0.${text.slice(ISO_LENGTH + 1, end)}`) * 1000;
  }

  function clf(text: string): number {
    coarse = true;
    if (text === clfText) return clfMs;
    clfText = copyOf(text);
    clfMs = readClf(text);
    return clfMs;
  }

  function fromNumber(value: number): number {
    if (!(value > 0)) return Number.NaN;
    if (value < MAX_SECONDS) {
      coarse = Number.isInteger(value);
      return value * 1000;
    }
    coarse = false;
    if (value < MAX_SECONDS * 1e3) return value;
    return value < MAX_SECONDS * 1e6 ? value / 1e3 : value / 1e6;
  }

  return {
    iso,
    clf,
    any(value) {
      if (typeof value === "number") return fromNumber(value);
      if (typeof value !== "string") return Number.NaN;
      if (/^[0-9]+(\.[0-9]+)?$/.test(value)) return fromNumber(Number(value));
      return value.charCodeAt(2) === 0x2f ? clf(value) : iso(value);
    },
    get coarse() {
      return coarse;
    },
  };
}

const isDigit = (code: number) => code >= 0x30 && code <= 0x39;

const isIsoSecond = (text: string) => /^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}$/.test(text);

function readClf(text: string): number {
  const parts = /^([0-9]{2})\/([A-Z][a-z]{2})\/([0-9]{4}):([0-9]{2}:[0-9]{2}:[0-9]{2}) ([+-][0-9]{2})([0-9]{2})$/.exec(
    text,
  );
  if (parts === null) return Number.NaN;
  const [, day, name = "", year, time, hours, minutes] = parts;
  const month = MONTHS.indexOf(name) + 1;
  return Date.parse(`${year}-${String(month).padStart(2, "0")}-${day}T${time}${hours}:${minutes}`);
}

/** A copy that does not reference the original string. */
export function copyOf(text: string): string {
  return Buffer.from(text, "utf8").toString("utf8");
}
