/** Computes what a primary has to carry from what one node sends and what one call, entry and key costs. */

/** Measured on a real Redis. */
export interface UnitCosts {
  /** CPU of a sync message, without its entries. */
  usPerCall: number;
  /** CPU of one app in a message. */
  usPerEntry: number;
  usPerHeartbeat: number;
  /** Memory of an app, of an app that a node holds tokens of, and of a node on a shard. */
  bytesPerApp: number;
  bytesPerHeldLease: number;
  bytesPerNode: number;
}

/** Ledger entries per second of one app on one node, by its requests per second there; sorted. From the simulation. */
export type EntryCurve = { perPair: number; entriesPerSecond: number }[];

/** Heartbeats per second of a node on a shard to which it sends nothing else. From the simulation. */
export interface NodeBehaviour {
  curve: EntryCurve;
  heartbeatsPerSecond: number;
}

/** Every app makes `perApp` requests per second, spread evenly over all nodes. */
export interface Installation {
  nodes: number;
  apps: number;
  perApp: number;
  shards: number;
  primaries: number;
}

/** Of one primary, per second. */
export interface PrimaryLoad {
  calls: number;
  entries: number;
  /** 1 is a whole core. */
  cores: number;
  bytes: number;
}

/** A node collects what is due into one message per interval. Requests that wait for tokens shorten it a little. */
const MESSAGE_SECONDS = 0.08;
/** An unused lease is returned after this time. */
const IDLE_SECONDS = 90;

export function entriesPerPair(curve: EntryCurve, perPair: number): number {
  const after = curve.findIndex((point) => point.perPair >= perPair);
  if (after === 0) return (curve[0]!.entriesPerSecond * perPair) / curve[0]!.perPair;
  if (after < 0) {
    const last = curve.at(-1)!;
    return (last.entriesPerSecond * perPair) / last.perPair;
  }
  const [low, high] = [curve[after - 1]!, curve[after]!];
  const part = Math.log(perPair / low.perPair) / Math.log(high.perPair / low.perPair);
  return low.entriesPerSecond * (high.entriesPerSecond / low.entriesPerSecond) ** part;
}

/** Messages and heartbeats per second of a node on one shard, which gets `entries` ledger entries per second from it. */
export function callsOnShard(entries: number, heartbeatsPerSecond: number): { messages: number; heartbeats: number } {
  const messages = entries / (1 + entries * MESSAGE_SECONDS);
  return { messages, heartbeats: heartbeatsPerSecond * Math.exp(-messages) };
}

export function primaryLoad(at: Installation, unit: UnitCosts, node: NodeBehaviour): PrimaryLoad {
  const { nodes, apps, perApp, shards, primaries } = at;
  const perPair = perApp / nodes;
  const entriesOnShard = (apps / shards) * entriesPerPair(node.curve, perPair);
  const { messages, heartbeats } = callsOnShard(entriesOnShard, node.heartbeatsPerSecond);
  const shardsOnPrimary = shards / primaries;
  const perSecond = (value: number) => value * nodes * shardsOnPrimary;
  const entries = perSecond(entriesOnShard);
  const us =
    perSecond(messages) * unit.usPerCall + entries * unit.usPerEntry + perSecond(heartbeats) * unit.usPerHeartbeat;
  const held = (apps / primaries) * nodes * (1 - Math.exp(-perPair * IDLE_SECONDS));
  const bytes =
    (apps / primaries) * unit.bytesPerApp + held * unit.bytesPerHeldLease + perSecond(1) * unit.bytesPerNode;
  return { calls: perSecond(messages + heartbeats), entries, cores: us / 1e6, bytes };
}
