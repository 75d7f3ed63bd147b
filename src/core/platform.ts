/** Operations that JavaScript and Lua write differently; the Lua build uses `platform-lua.ts`. A contract test compares both. */

/** The whole number that `text` spells in decimal digits alone, else -1. Above 2^53 it is not exact: check the range. */
export function wholeNumber(text: string): number {
  return /^[0-9]+$/.test(text) ? Number(text) : -1;
}

/** `count` of the texts, from `from` on, each read as `wholeNumber` does. There must be as many. */
export function wholeNumbers(texts: string[], from: number, count: number): number[] {
  return texts.slice(from, from + count).map(wholeNumber);
}

/**
 * The number that `text` spells, as Redis keeps numbers: decimal, with an exponent where it is very large or small.
 * `fallback` where it spells none, or one that is infinite. Only for texts that scripts wrote themselves: Lua would also
 * read other spellings, and a closer look at each would cost a third of a grant.
 */
export function storedNumber(text: string | false, fallback: number): number {
  if (text === false || !/^-?[0-9][0-9.e+-]*$/.test(text)) return fallback;
  const value = Number(text);
  return Number.isFinite(value) ? value : fallback;
}

/** A whole number up to 2^53 in decimal digits, never with an exponent; "0" for −0, too. */
export function wholeText(value: number): string {
  return value.toFixed(0);
}

/** True for 1 to 128 of A–Z a–z 0–9 . _ : - */
export function isIdentifier(text: string): boolean {
  return /^[A-Za-z0-9._:-]{1,128}$/.test(text);
}

/** Texts and whole numbers as one text, `separator` between them. No number is further from zero than `largest`. */
export function joinValues(values: (string | number)[], separator: string, _largest: number): string {
  return values.map((value) => (typeof value === "number" ? wholeText(value) : value)).join(separator);
}

/** The parts of `text` between the one-character `separator`. */
export function splitText(text: string, separator: string): string[] {
  return text.split(separator);
}
