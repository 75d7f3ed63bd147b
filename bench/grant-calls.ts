/** The calls that the grant script is measured with: a node that spends all it was granted and asks for more. */
import { appKey, clusterKey, ledgerKey, nodeInEpoch, nodesKey } from "../src/core/keys.js";

/** The keys and arguments of one run of a script. */
export interface ScriptCall {
  keys: string[];
  args: (string | number)[];
}

const NODE = nodeInEpoch("bench-node", "1");
/** What the node needs at once, and what it would like to have: the buckets below always have it. */
export const NEED = 10;
export const WANT = 100;
const BUCKET = 1_000_000_000;
const RATE = BUCKET * 1_000_000;
const NODE_TTL_MS = 10_000;

/** Message `seq` of the node, about its first `apps` apps. Every seq is new: no answer is a remembered one. */
export function steadyGrant(clusterId: string, apps: number, seq: number): ScriptCall {
  const cluster = `${clusterId}/0`;
  const ids = Array.from({ length: apps }, (_, i) => `app-${i}`);
  const granted = WANT * (seq - 1);
  return {
    keys: [clusterKey(cluster), nodesKey(cluster), ledgerKey(cluster, NODE), ...ids.map((id) => appKey(cluster, id))],
    args: [
      ...[BUCKET, RATE, NODE_TTL_MS, 1, seq, NODE],
      ...ids.flatMap((id) => [id, BUCKET, RATE, 1, 0, granted, granted, 0, NEED, WANT, 1]),
    ],
  };
}
