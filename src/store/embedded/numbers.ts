/** Parses and formats numbers as Redis commands do: integers strictly, scores as decimal text. */
import type { ScoreBound } from "./sorted-set.js";

/** An error reply; the message is that of Redis. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

const WHOLE = /^(?:0|-?[1-9][0-9]{0,18})$/;
export const INT64_MAX = 2n ** 63n - 1n;
const INT64_MIN = -(2n ** 63n);
const DECIMAL = /^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$/;
const INFINITE = /^([+-]?)(?:inf|infinity)$/i;

/** A 64-bit integer. Like Redis, rejects plus signs, blanks and leading zeros. */
export function parseWhole(text: string): bigint {
  const value = WHOLE.test(text) ? BigInt(text) : undefined;
  if (value === undefined || value > INT64_MAX || value < INT64_MIN) {
    throw new CommandError("ERR value is not an integer or out of range");
  }
  return value;
}

export function addWhole(a: bigint, b: bigint): bigint {
  const sum = a + b;
  if (sum > INT64_MAX || sum < INT64_MIN) throw new CommandError("ERR increment or decrement would overflow");
  return sum;
}

export const parseScore = (text: string) => parseDecimal(text, "ERR value is not a valid float");

export function parseBound(text: string): ScoreBound {
  const exclusive = text.startsWith("(");
  return { score: parseDecimal(exclusive ? text.slice(1) : text, "ERR min or max is not a float"), exclusive };
}

/**
 * Integers up to 2^53 have the same text as in every Redis. Fractions may differ (0.1 is 0.10000000000000001 in
 * Redis 7.0 and 0.1 from 7.2), but parse to the same number.
 */
export function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "inf";
  if (value === Number.NEGATIVE_INFINITY) return "-inf";
  return Object.is(value, -0) ? "-0" : String(value);
}

function parseDecimal(text: string, message: string): number {
  if (DECIMAL.test(text)) return Number(text);
  const infinite = INFINITE.exec(text);
  if (infinite === null) throw new CommandError(message);
  return infinite[1] === "-" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
}
