/** The degradation level: reads it, pins and unpins it. */
import type { OperationsContext } from "./context.js";
import type { DegradationReply, DegradationRequest, DegradationState } from "./contract/contract.js";
import { ok, type Reply } from "./reply.js";

export function degradationOperations(context: OperationsContext) {
  async function state(): Promise<DegradationState> {
    const reports = await context.reports();
    const pinned = context.pin.current();
    return {
      level: Math.max(context.level(reports), context.serviceLevel()),
      pinned_level: pinned?.level ?? null,
      pinned_until: pinned === undefined ? null : new Date(pinned.untilMs).toISOString(),
      reason: pinned?.reason ?? "",
      operator: pinned?.operator ?? "",
      service_level: context.serviceLevel(),
      workers: reports.map(({ node, level }) => ({ node_id: node, level })),
      timestamp: context.timestamp(),
    };
  }

  const audited = ({ level, pinned_level, pinned_until }: DegradationState) => ({ level, pinned_level, pinned_until });

  return {
    degradation: async (): Promise<Reply<DegradationState>> => ok(await state()),

    async setDegradation(request: DegradationRequest, operator: string): Promise<Reply<DegradationReply>> {
      const before = await state();
      const { level, reason = "", duration_seconds } = request;
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

    async unpinDegradation(): Promise<Reply<DegradationState>> {
      const before = await state();
      context.pin.clear();
      const after = await state();
      return ok(after, { before: audited(before), after: audited(after) });
    },
  };
}
