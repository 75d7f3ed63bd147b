/**
 * The standard library of portable code: what JavaScript and Lua both have, with the same meaning. The build and the
 * check use it instead of TypeScript's own, so that anything else does not type-check.
 */

interface ReadonlyArray<T> {
  readonly length: number;
  readonly [index: number]: T;
  [Symbol.iterator](): Iterator<T>;
}

interface Array<T> {
  readonly length: number;
  [index: number]: T;
  /** One item; the result cannot be used. */
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
type ReturnType<F extends (...args: never[]) => unknown> = F extends (...args: never[]) => infer R ? R : never;

// Required by the type checker itself.
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
