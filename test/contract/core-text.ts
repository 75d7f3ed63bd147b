/** Parses and formats numbers for the conformance program, exactly and identically in JavaScript and Lua. */
import { storedNumber, wholeText } from "../../src/core/platform.js";

const LARGEST_EXACT = 9007199254740992;

/** The argument at `index`, or empty if it is missing. */
export function textAt(words: string[], index: number): string {
  const word = words[index];
  return word === undefined ? "" : word;
}

/** The number at `index`, including NaN and infinity. */
export function numberAt(words: string[], index: number): number {
  const word = textAt(words, index);
  if (word === "nan") return NaN;
  if (word === "inf") return Infinity;
  if (word === "-inf") return -Infinity;
  return storedNumber(word, 0);
}

/** Formats a number without loss: as an integer, or as an integer and the power of two to multiply it by. */
export function exact(value: number): string {
  if (value === Infinity) return "inf";
  if (value === -Infinity) return "-inf";
  if (value - value !== 0) return "nan";
  let mantissa = value;
  let power = 0;
  while (Math.abs(mantissa) > LARGEST_EXACT) {
    mantissa = mantissa / 2;
    power = power + 1;
  }
  while (Math.floor(mantissa) !== mantissa) {
    mantissa = mantissa * 2;
    power = power - 1;
  }
  if (power === 0) return wholeText(mantissa);
  return `${wholeText(mantissa)}p${wholeText(power)}`;
}

export function yesNo(value: boolean): string {
  return value ? "yes" : "no";
}
