/** The Lua implementation of `platform.ts`; the build substitutes it. */

declare function tonumber(this: void, text: string): number | undefined;
declare const string: {
  byte(this: void, text: string, position: number): number;
  find(this: void, text: string, pattern: string, from?: number, plain?: boolean): number | undefined;
  format(this: void, format: string, value: number): string;
  sub(this: void, text: string, from: number, to: number): string;
  lower(this: void, text: string): string;
  char(this: void, code: number): string;
  gsub(this: void, text: string, pattern: string, by: (this: void, match: string) => string): string;
};
declare const math: { floor(this: void, value: number): number };
declare const table: {
  concat(this: void, items: (string | number)[], separator?: string, from?: number, to?: number): string;
};

export function wholeNumber(text: string): number {
  if (string.find(text, "^%d+$") === undefined) return -1;
  return tonumber(text)!;
}

/** One check of all texts together is cheaper than one per text. */
export function wholeNumbers<N extends string>(texts: string[], from: number, names: readonly N[]): Record<N, number> {
  const count = names.length;
  const clean = string.find(table.concat(texts, "", from + 1, from + count), "%D") === undefined;
  const parse = clean ? tonumber : wholeNumber;
  const numbers = {} as Record<N, number>;
  // If all characters are digits, only an empty text is not a number.
  for (let i = 0; i < count; i++) numbers[names[i]!] = parse(texts[from + i]!) ?? -1;
  return numbers;
}

export function storedNumber(text: string | false, fallback: number): number {
  if (text === false) return fallback;
  const value = tonumber(text);
  if (value === undefined || value - value !== 0) return fallback;
  return value;
}

/** Texts of small numbers. */
const small: { [value: number]: string | undefined } = {};

export function wholeText(value: number): string {
  if (value >= 0 && value < 1000) {
    const known = small[value];
    if (known !== undefined) return known;
    const text = string.format("%.0f", value);
    // Otherwise there would be too many.
    if (value === math.floor(value)) small[value] = text;
    return text;
  }
  // A 32-bit integer, several times faster.
  if (value > -1000000000 && value < 1000000000 && value === math.floor(value)) return string.format("%d", value);
  return string.format("%.0f", value);
}

export function joinable(value: number): string {
  // Lua joins larger numbers with an exponent.
  return value < 1e14 ? (math.floor(value) as unknown as string) : string.format("%.0f", value);
}

export function codeAt(text: string, position: number): number {
  return string.byte(text, position + 1);
}

export function isIdentifier(text: string): boolean {
  return text.length <= 128 && string.find(text, "^[A-Za-z0-9._:-]+$") !== undefined;
}

export function joinValues(values: (string | number)[], separator: string, largest: number): string {
  // Lua formats whole numbers of up to 14 digits exactly.
  if (largest < 1e14) return table.concat(values, separator);
  const parts: string[] = [];
  for (const value of values) parts.push(typeof value === "number" ? wholeText(value) : value);
  return table.concat(parts, separator);
}

export function splitText(text: string, separator: string): string[] {
  const parts: string[] = [];
  let from = 1;
  let end = string.find(text, separator, from, true);
  while (end !== undefined) {
    parts.push(string.sub(text, from, end - 1));
    from = end + separator.length;
    end = string.find(text, separator, from, true);
  }
  parts.push(string.sub(text, from, -1));
  return parts;
}

export function hasPrefix(text: string, prefix: string): boolean {
  return string.sub(text, 1, prefix.length) === prefix;
}

export function findText(text: string, part: string, from: number): number {
  const found = string.find(text, part, from + 1, true);
  return found === undefined ? -1 : found - 1;
}

export function cutText(text: string, from: number, to: number): string {
  return string.sub(text, from + 1, to);
}

export function lowerText(text: string): string {
  return string.lower(text);
}

export function hasControls(text: string): boolean {
  return string.find(text, "%c") !== undefined;
}

function escapedByte(this: void, byte: string): string {
  return "_" + string.format("%02x", string.byte(byte, 1));
}

export function escapeBytes(text: string): string {
  if (string.find(text, "[^A-Za-z0-9.-]") === undefined) return text;
  // Only the first of the two results.
  const escaped = string.gsub(text, "[^A-Za-z0-9.-]", escapedByte);
  return escaped;
}

export function characterOf(code: number): string {
  return string.char(code);
}

export function isPlainPath(path: string): boolean {
  if (string.byte(path, 1) !== 47) return false;
  return string.find(path, "[^%w_/.~!$&'()*+,=:@-]") === undefined && string.find(path, "/[./]") === undefined;
}

function encodedByte(this: void, byte: string): string {
  return "%" + string.format("%02X", string.byte(byte, 1));
}

/** Bytes that a path has encoded; no escapes of bytes, which the compiler would write as UTF-8. */
const TO_ENCODE = '[^!"$&->@-[%]^-~]';

export function encodeForPath(text: string): string {
  if (string.find(text, TO_ENCODE) === undefined) return text;
  // Only the first of the two results.
  const encoded = string.gsub(text, TO_ENCODE, encodedByte);
  return encoded;
}
