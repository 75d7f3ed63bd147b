/** What the planes in Lua use of its own library, typed. Nothing here leaves any Lua behind. */

/** Several values at once, as Lua's functions give them; TypeScriptToLua knows the type by its field. */
export type Several<T extends unknown[]> = T & { __tstlMultiReturn: unknown };

export declare function toText(this: void, value: number): string;
/** What the work answers, or what went wrong. */
export declare function pcall<A extends unknown[], R>(
  this: void,
  work: (this: void, ...given: A) => R,
  ...given: A
): Several<[true, R] | [false, string]>;

/** Lua's own library; the head of the bundle gives it these names. */
export declare const luaString: {
  find(this: void, text: string, pattern: string, from?: number, plain?: boolean): number | undefined;
  match(this: void, text: string, pattern: string): string | undefined;
  format(this: void, format: string, ...values: (number | string)[]): string;
  sub(this: void, text: string, from: number, to: number): string;
  lower(this: void, text: string): string;
  gsub(this: void, text: string, pattern: string, by: string): string;
  byte(this: void, text: string, at: number): number;
};

export declare const luaMath: {
  /** From 0 to below 1; or a whole number within both ends. */
  random(this: void, least?: number, most?: number): number;
  randomseed(this: void, seed: number): void;
};

export declare const luaTable: {
  concat(this: void, items: (string | number)[], separator?: string): string;
  remove(this: void, items: unknown[], at?: number): void;
};
