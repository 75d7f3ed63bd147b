/** Formats and parses numbers and durations: 1,234,567 · 98.7 % · 12 µs · 2h 3m · --for 5m. */
import { quoted } from "../config/problem.js";
import { UsageError } from "./command.js";

const grouped = (value: number, digits: number) =>
  value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** Truncates fractions. */
export function whole(value: number): string {
  return grouped(Math.trunc(value), 0).replace(/^-0$/, "0");
}

/** 1 node, 2 nodes. */
export function counted(count: number, noun: string): string {
  return `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A configured value, such as 20 or 0.5. */
export function amount(value: number): string {
  return value.toLocaleString("en-US", { maximumSignificantDigits: value < 1_000 ? 3 : 15 });
}

/** Small rates have one decimal. */
export function perSecond(value: number): string {
  return grouped(value, value !== 0 && value < 100 ? 1 : 0);
}

export function percent(ratio: number): string {
  return `${grouped(ratio * 100, 1)} %`;
}

/** Rounds down, so that only a full bucket is 100 %. */
export function percentOf(part: number, all: number): string {
  return all > 0 ? `${grouped(Math.floor((part / all) * 1000) / 10, 1)} %` : "-";
}

export function latency(ms: number): string {
  if (ms < 1) return `${grouped(ms * 1000, ms < 0.01 ? 1 : 0)} µs`;
  return ms < 1000 ? `${grouped(ms, ms < 100 ? 1 : 0)} ms` : `${grouped(ms / 1000, 1)} s`;
}

const UNITS_MS: Record<string, number> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };

/** The two largest units, such as 2h 3m. */
export function span(seconds: number): string {
  let leftMs = Math.max(Math.floor(seconds), 0) * 1000;
  const parts: string[] = [];
  for (const [name, size] of Object.entries(UNITS_MS).slice(0, -1)) {
    const count = Math.floor(leftMs / size);
    leftMs -= count * size;
    if (count > 0 || parts.length > 0) parts.push(`${count}${name}`);
  }
  const [first = "0s", second = "0"] = parts;
  return second.startsWith("0") ? first : `${first} ${second}`;
}

/** Between two ISO times. */
export function spanBetween(from: string, to: string): string {
  return span(Math.round((Date.parse(to) - Date.parse(from)) / 1000));
}

/** The age of an ISO time; may be slightly negative, because clocks differ. */
export function ago(iso: string, nowMs: number): string {
  const seconds = (nowMs - Date.parse(iso)) / 1000;
  return seconds < 1 ? "now" : `${span(seconds)} ago`;
}

/** Parses `30s`, `5m`, `1h30m` to milliseconds. A unit is required. */
export function readDuration(option: string, text: string, { leastMs, mostMs }: { leastMs: number; mostMs: number }) {
  const wrong = (reason: string) => new UsageError(`${option}: ${quoted(text)} ${reason}`);
  if (/^[0-9.]+$/.test(text)) throw wrong(`has no unit; use ${text}s for seconds or ${text}m for minutes`);
  if (!/^(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d))+$/.test(text)) {
    throw wrong("is not a duration; examples: 500ms, 30s, 5m, 2h, 1d, 1h30m");
  }
  const parts = [...text.matchAll(/([0-9.]+)(ms|s|m|h|d)/g)];
  const total = parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * UNITS_MS[unit!]!, 0);
  if (!(total >= leastMs && total <= mostMs)) {
    throw wrong(`is not between ${shortest(leastMs)} and ${shortest(mostMs)}`);
  }
  return total;
}

function shortest(ms: number): string {
  return ms > 0 && ms < 1000 ? `${ms}ms` : span(ms / 1000);
}

/** Parses an integer from `least` to `most`. */
export function readWhole(option: string, text: string, { least, most }: { least: number; most: number }): number {
  const value = /^[0-9]{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new UsageError(`${option}: ${quoted(text)} is not an integer from ${whole(least)} to ${whole(most)}`);
}
