/**
 * Calls of the store's operations by the names of their values. What an operation takes and replies is declared beside its script,
 * and only there; callers know neither the order of values nor how a store runs the script.
 */
import { MICRO } from "../core/bucket.js";
import { INVALID_ARGUMENT } from "../core/codes.js";
import { catalog, type ScriptName } from "../scripts/catalog.js";
import { type Field, kindOf, type NameOf, nameOf, type Operation } from "../scripts/operation.js";
import type { RedisValue, ScriptReply } from "../scripts/redis-api.js";
import { InvalidArgument } from "./errors.js";
import type { RunOptions, Store } from "./store.js";

type Declared<N extends ScriptName> = (typeof catalog)[N]["operation"];

/** As callers see them: flags are true or false, and micro-tokens are tokens. */
type Values<F extends Field> = {
  [M in F as M extends { kind: "ok" } ? never : NameOf<M>]: M extends { kind: "text" }
    ? string
    : M extends { kind: "flag" }
      ? boolean
      : number;
};

export type OperationValues<N extends ScriptName> = Values<Declared<N>["arguments"][number][number]>;

type Items<O extends Operation> = O extends { itemArguments: infer G extends readonly (readonly Field[])[] }
  ? { items: Values<G[number][number]>[] }
  : { items?: never };

type MoreKeys<O extends Operation> = O extends { moreKeys: string } ? { moreKeys: string[] } : { moreKeys?: never };

export type OperationCall<N extends ScriptName> = {
  keys: Record<Declared<N>["keys"][number], string>;
  values: OperationValues<N>;
} & MoreKeys<Declared<N>> &
  Items<Declared<N>>;

type ItemReplies<O extends Operation> = O extends { itemReply: infer F extends readonly Field[] }
  ? { items: Values<F[number]>[] }
  : unknown;

export type OperationReply<N extends ScriptName> = Values<Declared<N>["reply"][number]> & ItemReplies<Declared<N>>;

/** Rejects with a StoreError, or with an InvalidArgument before anything was changed. */
export async function callOperation<N extends ScriptName>(
  store: Pick<Store, "run">,
  name: N,
  { keys, moreKeys = [], values, items = [] }: OperationCall<NoInfer<N>>,
  options?: RunOptions,
): Promise<OperationReply<N>> {
  const declared: Operation = catalog[name].operation;
  const named: Record<string, string> = keys;
  const args: RedisValue[] = [];
  append(args, declared.arguments, values);
  for (const item of items) append(args, declared.itemArguments ?? [], item);
  const allKeys = [...declared.keys.map((key) => named[key] ?? ""), ...moreKeys];
  const reply = await store.run(name, allKeys, args, options);
  if (reply[0] === INVALID_ARGUMENT) throw new InvalidArgument(name, String(reply[1]));
  return read(declared, reply) as OperationReply<N>;
}

type AnyValues = Record<string, RedisValue | boolean>;

function append(args: RedisValue[], groups: readonly (readonly Field[])[], values: AnyValues): void {
  for (const group of groups) {
    for (const field of group) {
      const value = values[typeof field === "string" ? field : field.name];
      args.push(typeof value === "boolean" ? Number(value) : (value ?? ""));
    }
  }
}

/** A script may stop early: missing values are 0, false and empty. */
function read({ reply: head, itemReply }: Operation, reply: ScriptReply): AnyValues & { items?: AnyValues[] } {
  const values: AnyValues & { items?: AnyValues[] } = valuesAt(reply, 0, head);
  if (itemReply === undefined) return values;
  const items: AnyValues[] = [];
  for (let at = head.length; at + itemReply.length <= reply.length; at += itemReply.length) {
    items.push(valuesAt(reply, at, itemReply));
  }
  return Object.assign(values, { items });
}

function valuesAt(reply: ScriptReply, at: number, fields: readonly Field[]): AnyValues {
  const values: AnyValues = {};
  for (let i = 0; i < fields.length; i++) {
    const field = fields[i] as Field;
    const kind = kindOf(field);
    if (kind !== "ok") values[nameOf(field)] = decoded(kind, reply[at + i]);
  }
  return values;
}

function decoded(kind: ReturnType<typeof kindOf>, value: RedisValue | undefined): RedisValue | boolean {
  if (kind === "text") return String(value ?? "");
  if (kind === "flag") return value === 1;
  return kind === "micro" ? Number(value ?? 0) / MICRO : Number(value ?? 0);
}
