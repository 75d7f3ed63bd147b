/**
 * The whole standard library of `src/core` and `src/scripts`: what JavaScript and Lua both have and mean the same by.
 * The build and the check use it in the place of TypeScript's own, so anything else does not type-check.
 * Before adding a line, see what TypeScriptToLua makes of it: it must not need a helper function.
 */

interface ReadonlyArray<T> {
  readonly length: number;
  readonly [index: number]: T;
  [Symbol.iterator](): Iterator<T>;
}

interface Array<T> {
  readonly length: number;
  [index: number]: T;
  /** One item, as a statement: its result and several items at once would need a helper. */
  push(item: T): void;
  [Symbol.iterator](): Iterator<T>;
}

interface String {
  /** Bytes in Lua, UTF-16 units in JavaScript: the same for ASCII only. */
  readonly length: number;
}

/** Math.min and Math.max differ where an argument is NaN: check numbers first. */
interface Math {
  floor(value: number): number;
  ceil(value: number): number;
  abs(value: number): number;
  min(first: number, ...rest: number[]): number;
  max(first: number, ...rest: number[]): number;
}
declare const Math: Math;
declare const Infinity: number;
declare const NaN: number;

type Partial<T> = { [P in keyof T]?: T[P] };
type Required<T> = { [P in keyof T]-?: T[P] };
type Readonly<T> = { readonly [P in keyof T]: T[P] };
type Pick<T, K extends keyof T> = { [P in K]: T[P] };
type Record<K extends string | number | symbol, T> = { [P in K]: T };
type Exclude<T, U> = T extends U ? never : T;
type Extract<T, U> = T extends U ? T : never;
type Omit<T, K extends string | number | symbol> = Pick<T, Exclude<keyof T, K>>;
type NonNullable<T> = T & {};

// What the type checker itself asks for. Nothing here is of use to a program.
interface Boolean {}
interface Number {}
interface Object {}
interface Function {}
interface CallableFunction extends Function {}
interface NewableFunction extends Function {}
interface IArguments {}
interface RegExp {}
interface Symbol {}
interface SymbolConstructor {
  readonly iterator: unique symbol;
}
declare const Symbol: SymbolConstructor;
interface IteratorYieldResult<T> {
  done?: false;
  value: T;
}
interface IteratorReturnResult<T> {
  done: true;
  value: T;
}
type IteratorResult<T, R> = IteratorYieldResult<T> | IteratorReturnResult<R>;
interface Iterator<T, R = unknown, N = unknown> {
  next(...value: [] | [N]): IteratorResult<T, R>;
}
interface Iterable<T, R = unknown, N = unknown> {
  [Symbol.iterator](): Iterator<T, R, N>;
}
