/** How far a change of an option reaches: which ones wait for a restart, and which ones the store must not say. */
import type { Config } from "./schema.js";

/** What a process is made of when it starts: its name, its sockets, its processes, its store. */
export const needRestart: readonly string[] = [
  "node_id",
  "listen",
  "workers",
  "store",
  "store_pool_size",
  "cluster.id",
  "control.listen",
  "envoy.listen",
];

/** What each node must know by itself: to find the store and the others, and who may tell it what. */
export const notInStore: readonly string[] = [
  "node_id",
  "listen",
  "workers",
  "store",
  "store_pool_size",
  "cluster.id",
  "control",
  "envoy.listen",
];

/** May differ between nodes that enforce the same limits. */
export const ownToNode: readonly string[] = [
  "node_id",
  "listen",
  "workers",
  "store",
  "store_pool_size",
  "control.listen",
  "envoy.listen",
];

/** Options as `cluster.id`, no deeper. */
export function optionAt(config: Record<string, unknown>, option: string): unknown {
  const [name = "", inner] = option.split(".");
  const value = Object.hasOwn(config, name) ? config[name] : undefined;
  if (inner === undefined) return value;
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, inner)) return undefined;
  return (value as Record<string, unknown>)[inner];
}

export function withOption(config: Config, option: string, value: unknown): Config {
  const [name = "", inner] = option.split(".");
  if (inner === undefined) return { ...config, [name]: value };
  return { ...config, [name]: { ...(optionAt(config, name) as object), [inner]: value } };
}
