/** L1 in the store: the shard's part of the cluster's bucket and the clock of its nodes, read and written as one hash. */
import { type Bucket, MAX_TOKENS, MICRO, refill } from "../../core/bucket.js";
import {
  BY_NOBODY,
  BY_OPERATOR,
  type Emergency,
  type EmergencyOrder,
  OWN_SHORT_RECENTLY,
  type StoppedBursts,
} from "../../core/emergency.js";
import { type Outage, outageAt } from "../../core/outage.js";
import { storedNumber } from "../../core/platform.js";
import { type Payer, reserveOf } from "../../core/reserve.js";
import { largestNeed, MAX_SHARDS } from "../../core/shard.js";
import { fields } from "../operation.js";
import type { RedisApi } from "../redis-api.js";
import { type Demand, readShard, type Share, shareOfCapacity, shareOfRate } from "./share.js";

/** The first arguments of every quota script. The rate is in micro-tokens per second. */
export const CLUSTER = fields("clusterCapacity", "clusterRate", "nodeTtlMs", "shards");
export type ClusterNumbers = Record<(typeof CLUSTER)[number], number>;

/** The largest rate in micro-tokens per second. */
export const MAX_RATE = MAX_TOKENS * MICRO;
/** The longest duration in milliseconds: ten years. */
export const MAX_DURATION_MS = 315360000000;
/** The largest counter: 2^53 − 1. */
export const MAX_COUNTER = 9007199254740991;

/** Instead of milliseconds: there is no emergency. */
export const NO_EMERGENCY = -1;

/**
 * The shard's part of the cluster's bucket, and what every call needs besides. `held` counts only tokens of apps that L1 has
 * paid. The level is never negative: overdraft that L1 does not pay is written off.
 */
export interface Cluster extends Bucket, Payer {
  /** Number of shards. */
  shards: number;
  /** Micro-tokens of L1 that one request may need at most. */
  largestNeed: number;
  /** Of all shards together: micro-tokens per second, and the reserve. */
  wholeRate: number;
  wholeReserve: number;
  share: Share;
  /** Only stored if there are several shards. */
  demand: Demand;
  /** Microseconds on the store's clock. */
  now: number;
  /**
   * The clock of the nodes, in microseconds: like `now`, but it never goes back, and advances per call by at most a
   * third of a node's time-to-live. So neither a clock that jumps ahead nor an outage of the store, in which no node
   * could report, makes all nodes look dead at once.
   */
  clock: number;
  /** The last outage of the store, and whether this call has found it. */
  outage: Outage;
  outageIsNew: boolean;
  /** A node that was silent for longer, in microseconds, is dead. */
  nodeTtl: number;
  /** Remaining milliseconds of the emergency; 0 when it has no end, NO_EMERGENCY outside an emergency. */
  emergencyMs: number;
  /** Overdraft of this call that L1 does not pay, in tokens. */
  writtenOff: number;
  /** In this call, L1 could not pay the own rate of an app. */
  ownShort: boolean;
}

/** True for a whole number from `least` to `most`. Text that is not a whole number was read as -1. */
export function isWithin(value: number, least: number, most: number): boolean {
  return value >= least && value <= most;
}

/** Microseconds since 1970 on the store's clock. */
export function storeTime(redis: RedisApi): number {
  const time = redis.call("TIME");
  return storedNumber(time[0], 0) * MICRO + storedNumber(time[1], 0);
}

/** The invalid one among the cluster's numbers, or an empty text. */
export function clusterFault({ clusterCapacity, clusterRate, nodeTtlMs, shards }: ClusterNumbers): string {
  if (!isWithin(clusterCapacity, 0, MAX_TOKENS)) return "cluster_capacity";
  if (!isWithin(clusterRate, 0, MAX_RATE)) return "cluster_rate";
  if (!isWithin(nodeTtlMs, 1, MAX_DURATION_MS)) return "node_ttl_ms";
  if (!isWithin(shards, 1, MAX_SHARDS)) return "shards";
  return "";
}

/** Checks the cluster's numbers in a call. */
export function checkCluster<C extends { fault: string; values: ClusterNumbers }>(call: C): C {
  if (call.fault === "") call.fault = clusterFault(call.values);
  return call;
}

/** Reads the cluster and refills it up to now. */
export function readCluster(redis: RedisApi, key: string, numbers: ClusterNumbers): Cluster {
  const { clusterCapacity, clusterRate, shards } = numbers;
  const { share, demand } = readShard(redis, key, shards);
  const capacity = shareOfCapacity(clusterCapacity, share);
  const nodeTtl = numbers.nodeTtlMs * 1000;
  const now = storeTime(redis);
  const fields = redis.call(
    "HMGET",
    key,
    "tokens",
    "at",
    "clock",
    "l1_held",
    "em_source",
    "em_until",
    "bursts_stopped",
    "outage_from",
    "outage_to",
  );
  const last = storedNumber(fields[1], 0);
  const elapsed = last === 0 ? 0 : now - last;
  const known = { from: storedNumber(fields[7], 0), to: storedNumber(fields[8], 0) };
  const outage = outageAt(known, last, now);
  let emergencyMs = NO_EMERGENCY;
  if (fields[4] !== false && fields[4] !== BY_NOBODY) {
    const until = storedNumber(fields[5], 0);
    if (until === 0) emergencyMs = 0;
    else if (now < until) emergencyMs = Math.ceil((until - now) / 1000);
  }
  const rate = shareOfRate(clusterRate, share);
  const cluster: Cluster = {
    // Release 0.2 let it become negative.
    tokens: Math.max(storedNumber(fields[0], capacity), 0),
    debt: 0,
    capacity,
    held: storedNumber(fields[3], 0) * MICRO,
    rate,
    reserve: reserveOf(capacity, rate),
    burstsStopped: storedNumber(fields[6], 0) > 0,
    wholeRate: clusterRate,
    wholeReserve: reserveOf(clusterCapacity * MICRO, clusterRate),
    shards,
    largestNeed: largestNeed(clusterCapacity, shards) * MICRO,
    share,
    demand,
    now,
    clock: storedNumber(fields[2], now) + Math.min(Math.max(elapsed, 0), Math.floor(nodeTtl / 3)),
    outage,
    outageIsNew: outage.to !== known.to,
    nodeTtl,
    emergencyMs,
    writtenOff: 0,
    ownShort: false,
  };
  refill(cluster, elapsed);
  return cluster;
}

export function writeCluster(redis: RedisApi, key: string, cluster: Cluster): void {
  const { tokens, now, clock, outage, demand } = cluster;
  const held = cluster.held / MICRO;
  // The function library of release 0.2 reads `held`.
  redis.call("HSET", key, "tokens", tokens, "at", now, "clock", clock, "l1_held", held, "held", held);
  if (cluster.shards > 1) redis.call("HSET", key, "taken", demand.taken, "refused", demand.refused);
  if (cluster.outageIsNew) redis.call("HSET", key, "outage_from", outage.from, "outage_to", outage.to);
  if (cluster.ownShort) redis.call("HSET", key, "own_short", now);
  if (cluster.writtenOff > 0) {
    redis.call("HSET", key, "written_off", readWrittenOff(redis, key) + cluster.writtenOff);
  }
}

/** Overdraft that L1 did not pay, in tokens since the cluster was created or the operator restored L1. */
export function readWrittenOff(redis: RedisApi, key: string): number {
  return storedNumber(redis.call("HGET", key, "written_off"), 0);
}

/** The whole emergency state, for the scripts that change it; the others use `Cluster.emergencyMs`. */
export function readEmergency(redis: RedisApi, key: string): Emergency {
  const fields = redis.call("HMGET", key, "em_source", "em_since", "em_until", "em_calm");
  const source = fields[0];
  const on = source !== false && source !== BY_NOBODY;
  return {
    active: on,
    source: on ? source : BY_NOBODY,
    since: storedNumber(fields[1], 0),
    until: storedNumber(fields[2], 0),
    calmSince: storedNumber(fields[3], 0),
  };
}

export function writeEmergency(redis: RedisApi, key: string, emergency: Emergency): void {
  const { source, since, until, calmSince } = emergency;
  redis.call("HSET", key, "em_source", source, "em_since", since, "em_until", until, "em_calm", calmSince);
}

/** The first stage of the automatic emergency. Release 0.2 does not know these fields. */
export function readStopped(redis: RedisApi, key: string): StoppedBursts {
  const fields = redis.call("HMGET", key, "bursts_stopped", "bursts_calm");
  return { since: storedNumber(fields[0], 0), calmSince: storedNumber(fields[1], 0) };
}

export function writeStopped(redis: RedisApi, key: string, { since, calmSince }: StoppedBursts): void {
  redis.call("HSET", key, "bursts_stopped", since, "bursts_calm", calmSince);
}

/** Whether L1 could not pay an app's own rate in the last second. */
export function wasOwnShort(redis: RedisApi, key: string, now: number): boolean {
  const elapsed = now - storedNumber(redis.call("HGET", key, "own_short"), 0);
  return elapsed >= 0 && elapsed < OWN_SHORT_RECENTLY;
}

/** Why an operator started the emergency, and who; empty if it is off or was started by usage. */
export function readOrder(redis: RedisApi, key: string, { active, source }: Emergency): EmergencyOrder {
  if (!active || source !== BY_OPERATOR) return { reason: "", operator: "" };
  const fields = redis.call("HMGET", key, "em_reason", "em_operator");
  const reason = fields[0];
  const operator = fields[1];
  return { reason: reason === false ? "" : reason, operator: operator === false ? "" : operator };
}

export function writeOrder(redis: RedisApi, key: string, { reason, operator }: EmergencyOrder): void {
  redis.call("HSET", key, "em_reason", reason, "em_operator", operator);
}

/** Whether the cluster lends at all: not in an emergency, nor in its first stage. */
export function mayLend({ emergencyMs, burstsStopped }: Cluster): boolean {
  return emergencyMs === NO_EMERGENCY && !burstsStopped;
}

/** The number of nodes that reported within their time-to-live. */
export function liveNodes(redis: RedisApi, nodesKey: string, cluster: Cluster): number {
  return redis.call("ZCOUNT", nodesKey, cluster.clock - cluster.nodeTtl, "+inf");
}

/** Whether a node that last reported `silent` microseconds ago is alive. */
export function isAlive(silent: number, cluster: Cluster): boolean {
  return silent <= cluster.nodeTtl;
}
