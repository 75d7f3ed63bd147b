/** Operations that JavaScript and Lua write differently; the Lua build uses `platform-lua.ts`. A contract test compares both. */

/** Parses a text of decimal digits; -1 for any other text. Not exact above 2^53: check the range. */
export function wholeNumber(text: string): number {
  return /^[0-9]+$/.test(text) ? Number(text) : -1;
}

/** Parses the texts from position `from` on like `wholeNumber`, one for each name. There must be that many. */
export function wholeNumbers<N extends string>(texts: string[], from: number, names: readonly N[]): Record<N, number> {
  const numbers = {} as Record<N, number>;
  for (let i = 0; i < names.length; i++) numbers[names[i]!] = wholeNumber(texts[from + i]!);
  return numbers;
}

/**
 * Parses a number as Redis stores it: decimal, possibly with an exponent. `fallback` when it is not a finite number. Only
 * for texts that scripts wrote themselves: Lua accepts more formats, and checking them would cost a third of a grant.
 */
export function storedNumber(text: string | false, fallback: number): number {
  if (text === false || !/^-?[0-9][0-9.e+-]*$/.test(text)) return fallback;
  const value = Number(text);
  return Number.isFinite(value) ? value : fallback;
}

/** Formats a whole number up to 2^53 in decimal digits, without an exponent; −0 becomes "0". */
export function wholeText(value: number): string {
  // The common case, several times faster.
  return Number.isInteger(value) ? String(value) : value.toFixed(0);
}

/** The whole part of a number from 0 to 2^53 as a text that is joined with another one at once: Lua creates no text for it. */
export function joinable(value: number): string {
  return String(Math.floor(value));
}

/** The code of a character; the position counts from 0. Only for ASCII texts. */
export function codeAt(text: string, position: number): number {
  return text.charCodeAt(position);
}

/** True for 1 to 128 of A–Z a–z 0–9 . _ : - */
export function isIdentifier(text: string): boolean {
  return /^[A-Za-z0-9._:-]{1,128}$/.test(text);
}

/** Joins texts and whole numbers with `separator`. The absolute value of a number is at most `largest`. */
export function joinValues(values: (string | number)[], separator: string, _largest: number): string {
  return values.map((value) => (typeof value === "number" ? wholeText(value) : value)).join(separator);
}

/** Splits `text` at the one-character `separator`. */
export function splitText(text: string, separator: string): string[] {
  return text.split(separator);
}

/** Whether `text` begins with `prefix`. */
export function hasPrefix(text: string, prefix: string): boolean {
  return text.startsWith(prefix);
}

/** The position of `part` in `text` at or after `from`, counted from 0; -1 if it does not occur. */
export function findText(text: string, part: string, from: number): number {
  return text.indexOf(part, from);
}

/** The characters from position `from`, counted from 0, up to before `to`. */
export function cutText(text: string, from: number, to: number): string {
  return text.slice(from, to);
}

/** With ASCII letters in lower case. */
export function lowerText(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Whether the text has control characters (codes below 32, and 127). */
export function hasControls(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 32 || code === 127) return true;
  }
  return false;
}

/** Replaces each byte other than A–Z a–z 0–9 . - by `_` and two hexadecimal digits. Characters must be bytes (codes below 256). */
export function escapeBytes(text: string): string {
  if (/^[A-Za-z0-9.-]*$/.test(text)) return text;
  return text.replace(/[^A-Za-z0-9.-]/g, (byte) => `_${byte.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

/** The character of a code below 128. */
export function characterOf(code: number): string {
  return String.fromCharCode(code);
}

/** Whether a path has no query and only one spelling: no escapes, parameters, dot segments, empty segments or unusual characters. */
export function isPlainPath(path: string): boolean {
  return !/^(?!\/)|[^\w/.~!$&'()*+,=:@-]|\/[./]/.test(path);
}

/** Encodes each byte that is not printable, and \ ? # % */
export function encodeForPath(text: string): string {
  if (!/[^!-~]|[\\?#%]/.test(text)) return text;
  return text.replace(/[\0- \x7f-\xff\\?#%]/g, (byte) => {
    return `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
  });
}
