/** The names of all keys in the store. Keys that one script touches share a hash tag, so that they share a slot. */

/** L1 and the emergency of a cluster: a hash. */
export function clusterKey(cluster: string): string {
  return "ratelimit:{" + cluster + "}:cluster";
}

/** L2 of an app: a hash. */
export function appKey(cluster: string, app: string): string {
  return "ratelimit:{" + cluster + "}:app:" + app;
}

/** The nodes that were heard of: a sorted set, node → last seen. */
export function nodesKey(cluster: string): string {
  return "ratelimit:{" + cluster + "}:nodes";
}

/** What a node was granted, spent and returned in one epoch: a hash. */
export function ledgerKey(cluster: string, node: string): string {
  return "ratelimit:{" + cluster + "}:ledger:" + node;
}

/** The remembered answer to one operation: a text that expires. */
export function operationKey(cluster: string, operation: string): string {
  return "ratelimit:{" + cluster + "}:op:" + operation;
}

/** Who does what only one may do at a time: a hash that expires. */
export function lockKey(cluster: string, name: string): string {
  return "ratelimit:{" + cluster + "}:lock:" + name;
}

/** What all nodes of a cluster are told beyond their own files: a hash. */
export function configKey(cluster: string): string {
  return "ratelimit:{" + cluster + "}:config";
}

/**
 * A node in one life of it. A restarted process has another epoch and so another ledger. The separator is no
 * character of an id, so no two pairs give the same name.
 */
export function nodeInEpoch(node: string, epoch: string): string {
  return node + "@" + epoch;
}

/** The prefix of connection keys: as the documents name them, or tagged so that Redis Cluster keeps them together. */
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

/** How many attempts were refused: a number. */
export function rejectedKey(prefix: string): string {
  return prefix + ":rejected";
}

/** Connections released of late: a sorted set, connection → until when an acquire that comes too late is refused. */
export function releasedKey(prefix: string): string {
  return prefix + ":released";
}

/** The clock of the leases: a hash. */
export function connectionClockKey(prefix: string): string {
  return prefix + ":clock";
}

/** When a proxy was last heard of: a number that expires. */
export function proxyHeartbeatKey(prefix: string, proxy: string): string {
  return prefix + ":proxy:" + proxy + ":heartbeat";
}

/** A connection of a proxy, as member of the sorted sets. The separator is no character of an id. */
export function connectionMember(proxy: string, connection: string): string {
  return proxy + "/" + connection;
}
