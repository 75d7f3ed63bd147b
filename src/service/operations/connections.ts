/** Connections per pod, as the store counts them. */
import type { ConnectionsReply } from "../control/contract/contract.js";
import { answer, type Reply } from "../control/endpoint.js";
import { READ_MS, within } from "./deadline.js";
import type { Knowledge } from "./knowledge.js";

const LONGEST_LEASE_MS = 30_000;

export function connectionsOperation(know: Knowledge) {
  const { deps } = know;
  return async (): Promise<Reply<ConnectionsReply>> => {
    const pods = deps.pods();
    const leaseMs = Math.max(LONGEST_LEASE_MS, ...pods.map((pod) => pod.leaseMs));
    const names = [...new Set(pods.map(({ pod }) => pod))];
    const { total, rejected, perPod } = await within(READ_MS, deps.slots.counts(names, leaseMs));
    return answer({
      ...{ total, rejected },
      pods: pods.map(({ upstream, pod, limit }) => ({ upstream, pod, connections: perPod.get(pod) ?? 0, limit })),
      timestamp: know.timestamp(),
    });
  };
}
