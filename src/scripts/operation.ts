/**
 * What an operation of the store takes and returns. The declaration in the file of each script is the only place with the
 * order and the names of these values: scripts read calls by it, and callers write them and read replies by it.
 */
import { INVALID_ARGUMENT } from "../core/codes.js";
import { wholeNumber } from "../core/platform.js";
import type { ScriptReply } from "./redis-api.js";

/** The name of a whole number, or a value of another kind. */
export type Field = string | { name: string; kind: Kind };

/** `flag`: 0 or 1. `micro`: micro-tokens or millionths; callers get tokens or fractions. `ok`: says nothing, so callers do not get it. */
type Kind = "text" | "flag" | "micro" | "ok";

/** The code of a reply that is never another one. */
export const ALWAYS_OK = { name: "code", kind: "ok" } as const;

export interface Operation {
  keys: readonly string[];
  /** What the keys after these are, if there may be more. */
  moreKeys?: string;
  /** In groups, because several scripts have some in common. */
  arguments: readonly (readonly Field[])[];
  /** Repeated for each item of a call. */
  itemArguments?: readonly (readonly Field[])[];
  reply: readonly Field[];
  /** Repeated for each item of a reply. */
  itemReply?: readonly Field[];
}

export type NameOf<F extends Field> = F extends { name: infer N extends string } ? N : F & string;

export type NumberName<F extends Field> = Extract<F, string>;

/** A call's values in a script: flags and micro-tokens are numbers. */
type Read<F extends Field> = { [M in F as NameOf<M>]: M extends { kind: "text" } ? string : number };

/** The values of fields in a script, in their order. */
export type Listed<F extends readonly Field[]> = {
  -readonly [I in keyof F]: F[I] extends { kind: "text" | "ok" } ? string : number;
};

/** What a script replies, without the items. */
export type ReplyOf<O extends Operation> = Listed<O["reply"]>;

export interface Call<O extends Operation> {
  /** The invalid argument, or an empty text. Only then the rest is complete. */
  fault: string;
  key: Record<O["keys"][number], string>;
  moreKeys: string[];
  values: Read<O["arguments"][number][number]>;
  /** The position of the first item among the arguments. */
  itemsAt: number;
}

export function operation<const O extends Operation>(declared: O): O {
  return declared;
}

export function fields<const F extends readonly Field[]>(...declared: F): F {
  return declared;
}

export function text<const N extends string>(name: N): { name: N; kind: "text" } {
  return { name, kind: "text" };
}

export function flag<const N extends string>(name: N): { name: N; kind: "flag" } {
  return { name, kind: "flag" };
}

export function micro<const N extends string>(name: N): { name: N; kind: "micro" } {
  return { name, kind: "micro" };
}

export function nameOf(field: Field): string {
  return typeof field === "string" ? field : field.name;
}

export function kindOf(field: Field): Kind | "whole" {
  return typeof field === "string" ? "whole" : field.kind;
}

/** The names of the whole numbers among these arguments. */
export function numberNames<const G extends readonly (readonly Field[])[]>(groups: G): NumberName<G[number][number]>[] {
  const names: string[] = [];
  for (const group of groups) {
    for (const field of group) if (typeof field === "string") names.push(field);
  }
  return names as NumberName<G[number][number]>[];
}

/** The number of arguments in these groups. */
export function widthOf(groups: readonly (readonly Field[])[]): number {
  let width = 0;
  for (const group of groups) width = width + group.length;
  return width;
}

/** The reply to a call that changed nothing, because an argument is invalid. */
export function invalid(field: string): ScriptReply {
  return [INVALID_ARGUMENT, field];
}

/** Reads the keys and arguments of a call by their declaration, except for the items. Text that is not a whole number is read as -1. */
export function readCall<O extends Operation>(declared: O, keys: string[], argv: string[]): Call<O> {
  const key: Record<string, string> = {};
  const moreKeys: string[] = [];
  const values: Record<string, string | number> = {};
  const itemsAt = widthOf(declared.arguments);
  const call = { fault: "", key, moreKeys, values, itemsAt } as Call<O>;
  const named = declared.keys.length;
  if (keys.length < named || (keys.length > named && declared.moreKeys === undefined)) call.fault = "keys";
  else if (argv.length < itemsAt || (argv.length > itemsAt && declared.itemArguments === undefined)) {
    call.fault = "arguments";
  }
  if (call.fault !== "") return call;
  for (let i = 0; i < keys.length; i++) {
    if (i < named) key[declared.keys[i]!] = keys[i]!;
    else moreKeys.push(keys[i]!);
  }
  let at = 0;
  for (const group of declared.arguments) {
    for (const field of group) {
      values[nameOf(field)] = kindOf(field) === "text" ? argv[at]! : wholeNumber(argv[at]!);
      at = at + 1;
    }
  }
  return call;
}
