/** The degradation level: what it is, and the operator's pin on it. */
import type { DegradationOrder, DegradationReply, DegradationState } from "../control/contract/contract.js";
import { answer, type Reply } from "../control/endpoint.js";
import type { Knowledge } from "./knowledge.js";

export function degradationOperations(know: Knowledge) {
  const { deps } = know;

  async function state(): Promise<DegradationState> {
    const reports = await know.reports();
    const pinned = deps.pin.current();
    return {
      level: Math.max(know.level(reports), deps.serviceLevel()),
      pinned_level: pinned?.level ?? null,
      pinned_until: pinned === undefined ? null : new Date(pinned.untilMs).toISOString(),
      reason: pinned?.reason ?? "",
      operator: pinned?.operator ?? "",
      service_level: deps.serviceLevel(),
      workers: reports.map(({ node, level }) => ({ node_id: node, level })),
      timestamp: know.timestamp(),
    };
  }

  const shown = ({ level, pinned_level, pinned_until }: DegradationState) => ({ level, pinned_level, pinned_until });

  return {
    degradation: async (): Promise<Reply<DegradationState>> => answer(await state()),

    async setDegradation(order: DegradationOrder, operator: string): Promise<Reply<DegradationReply>> {
      const before = await state();
      const { level, reason = "", duration_seconds } = order;
      const pinned = deps.pin.set(level, Math.ceil(duration_seconds * 1000), reason, operator);
      const expires_at = new Date(pinned.untilMs).toISOString();
      return answer(
        {
          status: "degradation_level_set",
          ...{ previous_level: before.level, current_level: level, reason, expires_at, timestamp: know.timestamp() },
        },
        { before: shown(before), after: { level, pinned_level: level, pinned_until: expires_at } },
      );
    },

    async unpinDegradation(): Promise<Reply<DegradationState>> {
      const before = await state();
      deps.pin.clear();
      const after = await state();
      return answer(after, { before: shown(before), after: shown(after) });
    },
  };
}
