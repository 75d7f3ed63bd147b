/** Which options need a restart, cannot be set in the store, or may differ between nodes. */
import { valueAt } from "./problem.js";
import type { Config } from "./schema.js";

const ofNode = ["node_id", "listen", "tls", "workers", "store", "store_tls", "store_pool_size", "otel"];

/** Options that are used only when the process starts. */
export const needRestart: readonly string[] = [
  ...ofNode,
  "cluster.id",
  "cluster.shards",
  "control.listen",
  "control.tls",
  "envoy.listen",
  "envoy.tls",
];

/** Options that each node needs to find the store, and for access control. */
export const notInStore: readonly string[] = [
  ...ofNode,
  "cluster.id",
  "cluster.shards",
  "control",
  "envoy.listen",
  "envoy.tls",
];

/** May differ between nodes that enforce the same limits. */
export const ownToNode: readonly string[] = [...ofNode, "control.listen", "control.tls", "envoy.listen", "envoy.tls"];

/** @param option a path of one or two names, such as `cluster.id` */
export function optionAt(config: Record<string, unknown>, option: string): unknown {
  return valueAt(config, option.split("."));
}

export function withOption(config: Config, option: string, value: unknown): Config {
  const [name = "", inner] = option.split(".");
  if (inner === undefined) return { ...config, [name]: value };
  return { ...config, [name]: { ...(optionAt(config, name) as object), [inner]: value } };
}
