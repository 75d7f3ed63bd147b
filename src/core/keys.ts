/**
 * The names of all keys and channels in the store. Keys of one function call share a hash tag, so that they are in one
 * cluster slot. `make check` rejects the prefixes in other sources, and tests compare PROTOCOL and the ACLs in `deploy/`.
 */
import { cutText } from "./platform.js";

/** All keys and channels begin with one of these. */
export const LIMITS_PREFIX = "ratelimit:";
export const CONNECTIONS_PREFIX = "ws:";

// `shard` is the hash tag of a shard: see `quota/shard-tags.ts`.
/** The shard's part of L1, and the emergency: a hash. */
export const clusterKey = (shard: string): string => `${LIMITS_PREFIX}{${shard}}:cluster`;
/** L2 of an app: a hash. */
export const appKey = (shard: string, app: string): string => `${LIMITS_PREFIX}{${shard}}:app:${app}`;
/** Ids of buckets that belong to no app, and that L1 does not pay, begin with one of these. Ids of apps must not. */
export const VALUE_PREFIX = "limit:";
export const DESCRIPTOR_PREFIX = "rate-limit:";

/** The bucket of a value of `limits`, or of a descriptor of `rate_limits`. */
export function isLimitBucket(id: string): boolean {
  return (
    cutText(id, 0, VALUE_PREFIX.length) === VALUE_PREFIX ||
    cutText(id, 0, DESCRIPTOR_PREFIX.length) === DESCRIPTOR_PREFIX
  );
}

/** Known nodes: a sorted set, node → last seen. */
export const nodesKey = (shard: string): string => `${LIMITS_PREFIX}{${shard}}:nodes`;
/** What a node was granted, spent and returned in one epoch: a hash. */
export const ledgerKey = (shard: string, node: string): string => `${LIMITS_PREFIX}{${shard}}:ledger:${node}`;
/** The stored reply to one operation: a string that expires. */
export const operationKey = (shard: string, operation: string): string => `${LIMITS_PREFIX}{${shard}}:op:${operation}`;
/** The channel on which nodes are asked to return tokens, of the shard with this cluster key. */
export const recallChannel = (clusterKeyName: string): string => `${clusterKeyName}:recall`;
/** On that channel, instead of an app: tokens of all apps. */
export const ALL_APPS = "*";
/** A lock: a hash that expires. */
export const lockKey = (cluster: string, name: string): string => `${LIMITS_PREFIX}{${cluster}}:lock:${name}`;
/** The number of shards, fixed when the cluster is created: a string. */
export const shardsKey = (cluster: string): string => `${LIMITS_PREFIX}{${cluster}}:shards`;
/** The configuration layer in the store: a hash. */
export const configKey = (cluster: string): string => `${LIMITS_PREFIX}{${cluster}}:config`;
/** The channel on which changes of that layer are announced. */
export const configChannel = (cluster: string): string => `${LIMITS_PREFIX}config:update:${cluster}`;
/** The channel on which the emergency is announced. */
export const emergencyChannel = (cluster: string): string => `${LIMITS_PREFIX}emergency:${cluster}`;
/** A node in one epoch; each epoch has its own ledger. The separator is not a character of an id, so names are unique. */
export const nodeInEpoch = (node: string, epoch: string): string => `${node}@${epoch}`;

/** The prefix of a route's connection keys. Their hash tag belongs to the route: see `slots/route-tag.ts`. */
export const connectionPrefix = (tag: string): string => `${CONNECTIONS_PREFIX}{${tag}}:`;
/** The connections of a route on a pod: a sorted set, connection → end of its lease. */
export const podKey = (prefix: string, pod: string): string => `${prefix}pod_conn:${pod}`;
/** All connections of a route: a sorted set like those of the pods. */
export const allConnectionsKey = (prefix: string): string => `${prefix}global_conn`;
/** The connections of an app: a sorted set like those of the pods. */
export const appConnectionsKey = (prefix: string, app: string): string => `${prefix}app_conn:${app}`;
/** The connections of a client, by its network: a sorted set like those of the pods. */
export const clientConnectionsKey = (prefix: string, client: string): string => `${prefix}client_conn:${client}`;
/** The connections admitted within the sliding window: a sorted set, connection → when. */
export const connectionRateKey = (prefix: string, window: string): string => `${prefix}rate_limit:${window}`;
/** The same of one client, by its network. */
export const clientRateKey = (prefix: string, window: string, client: string): string =>
  `${prefix}client_rate:${window}:${client}`;
/** Number of refused attempts. */
export const rejectedKey = (prefix: string): string => `${prefix}rejected`;
/** Recently released connections: a sorted set, connection → until when a late acquire is refused. */
export const releasedKey = (prefix: string): string => `${prefix}released`;
/** The clock of the leases: a hash. */
export const connectionClockKey = (prefix: string): string => `${prefix}clock`;
/** When a proxy was last seen: a number that expires. */
export const proxyHeartbeatKey = (prefix: string, proxy: string): string => `${prefix}proxy:${proxy}:heartbeat`;
/**
 * A connection of a proxy, as member of the sorted sets. The separator is not a character of an id. The client is part of the
 * name, so that a proxy cannot move a connection to another client; empty: the proxy names none.
 */
export const connectionMember = (proxy: string, connection: string, client = ""): string =>
  client === "" ? `${proxy}/${connection}` : `${proxy}/${connection}/${client}`;
