/** The names of all keys in the store. Keys of one function call share a hash tag, so that they are in one cluster slot. */

/** L1 and the emergency of a cluster: a hash. */
export function clusterKey(cluster: string): string {
  return "ratelimit:{" + cluster + "}:cluster";
}

/** L2 of an app: a hash. */
export function appKey(cluster: string, app: string): string {
  return "ratelimit:{" + cluster + "}:app:" + app;
}

/** Known nodes: a sorted set, node → last seen. */
export function nodesKey(cluster: string): string {
  return "ratelimit:{" + cluster + "}:nodes";
}

/** What a node was granted, spent and returned in one epoch: a hash. */
export function ledgerKey(cluster: string, node: string): string {
  return "ratelimit:{" + cluster + "}:ledger:" + node;
}

/** The stored reply to one operation: a string that expires. */
export function operationKey(cluster: string, operation: string): string {
  return "ratelimit:{" + cluster + "}:op:" + operation;
}

/** A lock: a hash that expires. */
export function lockKey(cluster: string, name: string): string {
  return "ratelimit:{" + cluster + "}:lock:" + name;
}

/** The configuration layer in the store: a hash. */
export function configKey(cluster: string): string {
  return "ratelimit:{" + cluster + "}:config";
}

/** A node in one epoch; each epoch has its own ledger. The separator is not a character of an id, so names are unique. */
export function nodeInEpoch(node: string, epoch: string): string {
  return node + "@" + epoch;
}

/** The prefix of connection keys, with a hash tag for Redis Cluster. */
export function connectionPrefix(hashTags: boolean): string {
  return hashTags ? "{ws}" : "ws";
}

/** The connections of a pod: a sorted set, connection → end of its lease. */
export function podKey(prefix: string, pod: string): string {
  return prefix + ":pod_conn:" + pod;
}

/** All connections: a sorted set like those of the pods. */
export function allConnectionsKey(prefix: string): string {
  return prefix + ":global_conn";
}

/** The connections of an app: a sorted set like those of the pods. */
export function appConnectionsKey(prefix: string, app: string): string {
  return prefix + ":app_conn:" + app;
}

/** The connections admitted within the sliding window: a sorted set, connection → when. */
export function connectionRateKey(prefix: string, window: string): string {
  return prefix + ":rate_limit:" + window;
}

/** Number of refused attempts. */
export function rejectedKey(prefix: string): string {
  return prefix + ":rejected";
}

/** Recently released connections: a sorted set, connection → until when a late acquire is refused. */
export function releasedKey(prefix: string): string {
  return prefix + ":released";
}

/** The clock of the leases: a hash. */
export function connectionClockKey(prefix: string): string {
  return prefix + ":clock";
}

/** When a proxy was last seen: a number that expires. */
export function proxyHeartbeatKey(prefix: string, proxy: string): string {
  return prefix + ":proxy:" + proxy + ":heartbeat";
}

/** A connection of a proxy, as member of the sorted sets. The separator is not a character of an id. */
export function connectionMember(proxy: string, connection: string): string {
  return proxy + "/" + connection;
}
