/** Numbers, durations and times as text. */

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const one = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const NONE = "–";

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : whole.format(value);
}

/** Short: 1.2K, 3.4M. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  return Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value);
}

/** A rate per second. */
export function rate(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value === 0) return "0";
  return value < 99.95 ? one.format(value) : short(value);
}

export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return NONE;
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${one.format(share * 100)} %`;
}

/** Milliseconds as µs, ms or s with three digits. */
export function latency(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return NONE;
  if (ms < 1) return `${digits(ms * 1000)} µs`;
  return ms < 1000 ? `${digits(ms)} ms` : `${digits(ms / 1000)} s`;
}

function digits(value: number): string {
  return value < 10 ? value.toFixed(1) : value.toFixed(0);
}

export function duration(seconds: number): string {
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

export function ago(ms: number): string {
  return ms < 1500 ? "now" : `${duration(ms / 1000)} ago`;
}

export function clock(ms: number): string {
  return new Date(ms).toLocaleTimeString("en-GB");
}

export function plural(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** quota_exhausted → Quota exhausted. */
export function words(code: string): string {
  const text = code.toLowerCase().replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
