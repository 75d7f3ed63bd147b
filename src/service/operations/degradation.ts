/** The degradation level: reads it, pins and unpins it. */
import { SLOW_MS, VERY_SLOW_MS } from "../../core/degradation.js";
import type { OperationsContext } from "./context.js";
import * as contract from "./contract/contract.js";
import { admin, type Endpoint, ok } from "./endpoint.js";

export function degradationEndpoints(context: OperationsContext): Endpoint[] {
  async function state(): Promise<contract.DegradationState> {
    const reports = await context.reports();
    const pinned = context.pin.current();
    return {
      level: Math.max(context.level(reports), context.serviceLevel()),
      pinned_level: pinned?.level ?? null,
      pinned_until: pinned === undefined ? null : new Date(pinned.untilMs).toISOString(),
      reason: pinned?.reason ?? "",
      operator: pinned?.operator ?? "",
      service_level: context.serviceLevel(),
      workers: reports.map(({ node, level, storeCalls }) => ({
        node_id: node,
        level,
        store_latency_ms: Math.round(storeCalls.latencyMs * 1000) / 1000,
        store_calls: storeCalls.calls,
        store_errors: storeCalls.errors,
      })),
      slow_ms: SLOW_MS,
      very_slow_ms: VERY_SLOW_MS,
      timestamp: context.timestamp(),
    };
  }

  const audited = ({ level, pinned_level, pinned_until }: contract.DegradationState) => ({
    level,
    pinned_level,
    pinned_until,
  });

  return [
    admin("GET", "degradation", {
      summary: "The degradation level from 0 to 3, and whether an operator pinned it.",
      reply: contract.degradationState,
      handle: async () => ok(await state()),
    }),

    admin("POST", "degradation", {
      summary: "Pins the level of this service and its workers for a time.",
      action: "degradation.pin",
      request: contract.degradationRequest,
      reply: contract.degradationReply,
      async handle({ body: { level, reason = "", duration_seconds }, operator }) {
        const before = await state();
        const pinned = context.pin.set(level, Math.ceil(duration_seconds * 1000), reason, operator);
        const expires_at = new Date(pinned.untilMs).toISOString();
        return ok(
          {
            status: "degradation_level_set",
            previous_level: before.level,
            current_level: level,
            reason,
            expires_at,
            timestamp: context.timestamp(),
          },
          { before: audited(before), after: { level, pinned_level: level, pinned_until: expires_at } },
        );
      },
    }),

    admin("DELETE", "degradation", {
      summary: "Unpins the level, so that it follows the health of the store.",
      action: "degradation.unpin",
      request: contract.unpinRequest,
      reply: contract.degradationState,
      async handle() {
        const before = await state();
        context.pin.clear();
        const after = await state();
        return ok(after, { before: audited(before), after: audited(after) });
      },
    }),
  ];
}
