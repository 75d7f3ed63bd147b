/** The pieces that lines of text logs are made of: request lines, sizes, durations, quoted fields. */
import type { LogLine } from "./logged-request.js";

/** The usual methods, once: a method that is cut from a line would keep the whole piece of the log in memory. */
const METHODS = new Map(
  ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"].map((name) => [name, name]),
);

export function methodOf(text: string): string {
  return METHODS.get(text) ?? text;
}

export function isMethod(text: string): boolean {
  return METHODS.has(text) || /^[A-Za-z][!#$%&'*+.^_`|~0-9A-Za-z-]{0,31}$/.test(text);
}

/** Reads `"GET /path HTTP/1.1"` from `at` on. Answers where its last quote stands, or −1. */
export function readRequestLine(text: string, at: number, line: LogLine): number {
  if (text.charCodeAt(at) !== 0x22) return -1;
  let end = text.indexOf('" ', at + 1);
  // Apache writes a quote within as \", nginx as \x22.
  while (end > 0 && text.charCodeAt(end - 1) === 0x5c) end = text.indexOf('" ', end + 1);
  if (end < 0) return -1;
  const methodEnd = text.indexOf(" ", at);
  if (methodEnd < 0 || methodEnd > end) return -1;
  const pathEnd = text.lastIndexOf(" ", end - 1);
  if (pathEnd <= methodEnd || !text.startsWith("HTTP/", pathEnd + 1)) return -1;
  const method = text.slice(at + 1, methodEnd);
  if (!isMethod(method)) return -1;
  line.method = methodOf(method);
  line.path = text.slice(methodEnd + 1, pathEnd);
  return end;
}

/** A whole number of bytes; 0 for "-" or nothing, −1 for what is no such number. */
export function readAmount(text: string): number {
  if (text === "-" || text === "") return 0;
  if (text.length > 15) return -1;
  let value = 0;
  for (let i = 0; i < text.length; i++) {
    const digit = text.charCodeAt(i) - 0x30;
    if (!(digit >= 0 && digit <= 9)) return -1;
    value = value * 10 + digit;
  }
  return value;
}

/** Milliseconds; 0 for "-" or nothing, −1 for what is no number. */
export function readDuration(text: string, unitMs: number): number {
  const whole = readAmount(text);
  if (whole >= 0) return whole * unitMs;
  return /^[0-9]{1,15}(\.[0-9]{1,15})?$/.test(text) ? Number(text) * unitMs : -1;
}

/**
 * The field at `place`, counted from 0. Blanks are between fields; quotes hold one together, also after name=. Only as
 * much of the text is looked at as it takes.
 */
export function fieldAt(text: string, place: number): string {
  let at = 0;
  for (let count = 0; ; count++) {
    const begin = skipBlanks(text, at);
    if (begin >= text.length) return "";
    const end = fieldEnd(text, begin);
    if (count === place) return unquoted(text.slice(begin, end));
    at = end;
  }
}

/** The value of the field `name=value`. */
export function namedField(text: string, name: string): string {
  const mark = `${name}=`;
  let at = 0;
  for (;;) {
    const begin = skipBlanks(text, at);
    if (begin >= text.length) return "";
    const end = fieldEnd(text, begin);
    if (text.startsWith(mark, begin)) return unquoted(text.slice(begin + mark.length, end));
    at = end;
  }
}

function skipBlanks(text: string, from: number): number {
  let at = from;
  while (text.charCodeAt(at) === 0x20) at++;
  return at;
}

function fieldEnd(text: string, begin: number): number {
  const blank = text.indexOf(" ", begin);
  const plainEnd = blank < 0 ? text.length : blank;
  const quote = text.indexOf('"', begin);
  if (quote < 0 || quote > plainEnd) return plainEnd;
  const close = closingQuote(text, quote + 1);
  return close < 0 ? text.length : close + 1;
}

/** Of quotes that are part of the text Apache writes \", nginx \x22. */
export function closingQuote(text: string, from: number): number {
  let at = text.indexOf('"', from);
  while (at > 0 && text.charCodeAt(at - 1) === 0x5c) at = text.indexOf('"', at + 1);
  return at;
}

function unquoted(field: string): string {
  const last = field.length - 1;
  return last > 0 && field.charCodeAt(0) === 0x22 && field.charCodeAt(last) === 0x22 ? field.slice(1, last) : field;
}
