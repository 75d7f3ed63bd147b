/** L1, the bucket of the cluster: shows it, and fills it. */
import type { OperationsContext } from "./context.js";
import * as contract from "./contract/contract.js";
import { CHANGE_ALL_MS, READ_MS, within } from "./deadline.js";
import { admin, type Endpoint, ok } from "./endpoint.js";

export function clusterEndpoints(context: OperationsContext): Endpoint[] {
  const { coordinator, quota } = context;

  return [
    admin("GET", "cluster", {
      summary: "L1: its level, what nodes hold of it, its reserve, and the overdraft that it did not pay.",
      reply: contract.clusterReply,
      async handle() {
        const { tokens, held, capacity, reserve, writtenOff } = await within(READ_MS, quota.cluster());
        const guaranteed = context.apps().reduce((sum, app) => sum + app.guaranteed, 0);
        const { rate } = quota.limits();
        const timestamp = context.timestamp();
        return ok({ tokens, held, capacity, rate, reserve, written_off: writtenOff, guaranteed, timestamp });
      },
    }),

    admin("POST", "cluster", {
      summary: "Fills L1, and recounts what nodes hold of it.",
      action: "cluster-refill",
      request: contract.clusterRefillRequest,
      reply: contract.clusterRefillReply,
      async handle() {
        const levels = await within(CHANGE_ALL_MS, coordinator.refillCluster());
        return ok({ status: "refilled" as const, ...levels, timestamp: context.timestamp() }, levels);
      },
    }),
  ];
}
