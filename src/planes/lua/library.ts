/** The parts of Lua's standard library that the Lua planes use, with types. */

import type { Several } from "./proxy.js";

interface LuaString {
  find(this: void, text: string, pattern: string, from?: number, plain?: boolean): number | undefined;
  match(this: void, text: string, pattern: string): string | undefined;
  format(this: void, format: string, ...values: (number | string)[]): string;
  sub(this: void, text: string, from: number, to: number): string;
  lower(this: void, text: string): string;
  gsub(this: void, text: string, pattern: string, by: string): string;
  byte(this: void, text: string, at: number): number;
}

interface LuaMath {
  /** A number from 0 to below 1, or a whole number from `least` to `most`. */
  random(this: void, least?: number, most?: number): number;
  randomseed(this: void, seed: number): void;
}

interface LuaTable {
  concat(this: void, items: (string | number)[], separator?: string): string;
}

interface Lua {
  readonly string: LuaString;
  readonly math: LuaMath;
  readonly table: LuaTable;
  /** The field of a table, without its metatable. */
  rawget<T>(this: void, table: { readonly [name: string]: T }, name: string): T | undefined;
  /** Returns the result of `work`, or the error. */
  pcall<A extends unknown[], R>(
    this: void,
    work: (this: void, ...given: A) => R,
    ...given: A
  ): Several<[true, R] | [false, string]>;
}

declare const _G: Lua;

export const luaString = _G.string;
export const luaMath = _G.math;
export const luaTable = _G.table;
export const rawGet = _G.rawget;
export const pcall = _G.pcall;
