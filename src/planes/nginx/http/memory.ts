/** Numbers and texts in memory that is not Lua's: nothing is made for the collector to find. */
import { storedNumber } from "../../../core/platform.js";
import { luaString } from "../../lua/library.js";
import { type Bytes, ffi, type Place } from "../ngx.js";

/** Numbers are written in three groups of three digits. */
const GROUP = 1000;
const DIGITS = 9;
/** Numbers below this can be written … */
export const WRITABLE = 1000000000;
/** … and need so much room. */
export const NUMBER_BYTES = 12;
/** Those below this lie ready. */
export const SMALL = GROUP;
const SMALL_BYTES = 4;

interface Groups {
  /** The numbers below a thousand, four bytes each: three digits and one to be written over. */
  texts: Bytes;
  /** The same without zeros before them; and how long each is. */
  small: Bytes;
  lengths: Bytes;
  /** A number with all its digits. */
  whole: Place;
}

const groups = {} as Groups;

export function prepareDigits(): void {
  groups.texts = ffi.new("int32_t[?]", GROUP);
  groups.small = ffi.new("unsigned char[?]", GROUP * SMALL_BYTES);
  groups.lengths = ffi.new("int8_t[?]", GROUP);
  groups.whole = ffi.new("char[?]", NUMBER_BYTES * 2) as Place;
  for (let i = 0; i < GROUP; i++) {
    copyText(item(groups.texts, i), luaString.format("%03d", i));
    (groups.lengths as Place)[i] = copyText(smallText(i), luaString.format("%d", i));
  }
}

function item(items: Bytes, index: number): Place {
  return ((items as unknown as number) + index) as unknown as Place;
}

/** A number below SMALL, in memory that stays. */
export function smallText(value: number): Place {
  return item(groups.small, value * SMALL_BYTES);
}

export function smallLength(value: number): number {
  return groups.lengths[value]!;
}

/** Writes four bytes; those behind the number are to be written over. */
export function writeSmall(to: Place, value: number): void {
  ffi.cast("int32_t *", to)[0] = ffi.cast("int32_t *", smallText(value))[0]!;
}

/** `bytes` further on. */
export function after(place: Place, bytes: number): Place {
  return ((place as unknown as number) + bytes) as unknown as Place;
}

/** Answers how many bytes that were. */
export function copyText(to: Place, text: string): number {
  ffi.copy(to, text, text.length);
  return text.length;
}

function writeGroup(to: Place, value: number): void {
  ffi.cast("int32_t *", to)[0] = groups.texts[value]!;
}

/** 1 for a whole number that is at least as large, else 0. */
function reaches(value: number, least: number): number {
  return Math.min(Math.max(value - least + 1, 0), 1);
}

/**
 * Writes a whole number from 0 to below WRITABLE in decimal, and answers how long it is. It has no branches: in the middle
 * of so long a decision LuaJIT does not always manage to compile the other way, and tries again and again.
 */
export function writeNumber(to: Place, value: number): number {
  const { whole } = groups;
  const thousands = Math.floor(value / GROUP);
  const millions = Math.floor(thousands / GROUP);
  writeGroup(whole, millions);
  writeGroup(after(whole, 3), thousands - millions * GROUP);
  writeGroup(after(whole, 6), value - thousands * GROUP);
  const length =
    1 +
    reaches(value, 10) +
    reaches(value, 100) +
    reaches(value, 1000) +
    reaches(value, 10000) +
    reaches(value, 100000) +
    reaches(value, 1000000) +
    reaches(value, 10000000) +
    reaches(value, 100000000);
  ffi.copy(to, after(whole, DIGITS - length), NUMBER_BYTES);
  return length;
}

const ZERO = 48;

/** The number that so many digits spell. */
export function readNumber(from: Bytes, length: number): number {
  if (length > 8) return storedNumber(ffi.string(from, length), 0);
  let value = length > 0 ? from[0]! - ZERO : 0;
  if (length > 1) value = value * 10 + from[1]! - ZERO;
  if (length > 2) value = value * 10 + from[2]! - ZERO;
  if (length > 3) value = value * 10 + from[3]! - ZERO;
  if (length > 4) value = value * 10 + from[4]! - ZERO;
  if (length > 5) value = value * 10 + from[5]! - ZERO;
  if (length > 6) value = value * 10 + from[6]! - ZERO;
  if (length > 7) value = value * 10 + from[7]! - ZERO;
  return value;
}
