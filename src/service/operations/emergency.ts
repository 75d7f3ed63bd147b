/** The cluster's emergency: reads it, and turns it on and off. */
import { BY_NOBODY, BY_USAGE, emergencyRatio } from "../../core/emergency.js";
import type { OperationsContext } from "./context.js";
import type { EmergencyReply, EmergencyRequest, EmergencyStateReply } from "./contract/contract.js";
import { CHANGE_MS, within } from "./deadline.js";
import { ok, type Reply } from "./reply.js";

const MOST_NAMED = 1_000;

/** The API name of the store's emergency source. */
export function emergencySource(source: string): string {
  if (source === BY_NOBODY) return "";
  return source === BY_USAGE ? "automatic" : source;
}

export function emergencyOperations(context: OperationsContext) {
  /** Apps with a reduced quota during an emergency. */
  function affected(): string[] {
    const names: string[] = [];
    for (const { id, priority } of context.apps()) {
      if (emergencyRatio(priority) < 1) names.push(id);
      if (names.length === MOST_NAMED) break;
    }
    return names;
  }

  function state(): EmergencyStateReply {
    const { active, source, sinceMs, leftMs } = context.coordinator.emergency();
    return {
      emergency_mode: active,
      source: emergencySource(source),
      started_at: active ? new Date(sinceMs).toISOString() : null,
      expires_at: active && leftMs > 0 ? new Date(context.now() + leftMs).toISOString() : null,
      affected_apps: active ? affected() : [],
      timestamp: context.timestamp(),
    };
  }

  function audited() {
    const { emergency_mode, source, expires_at } = state();
    return { emergency_mode, source, expires_at };
  }

  async function activate(durationSeconds: number, reason: string, operator: string): Promise<EmergencyReply> {
    const durationMs = Math.ceil(durationSeconds * 1000);
    const { sinceMs, untilMs } = await within(CHANGE_MS, context.coordinator.emergencyOn(durationMs, reason, operator));
    return {
      status: "emergency_activated",
      emergency_mode: true,
      reason,
      operator,
      started_at: new Date(sinceMs).toISOString(),
      expires_at: untilMs === 0 ? null : new Date(untilMs).toISOString(),
      affected_apps: affected(),
      timestamp: context.timestamp(),
    };
  }

  async function deactivate(reason: string, operator: string): Promise<EmergencyReply> {
    await within(CHANGE_MS, context.coordinator.emergencyOff());
    // If usage is still high, another emergency may already have begun.
    const { source: _, ...after } = state();
    return { status: "emergency_deactivated", reason, operator, ...after };
  }

  return {
    emergency: async (): Promise<Reply<EmergencyStateReply>> => ok(state()),

    async setEmergency(request: EmergencyRequest, operator: string): Promise<Reply<EmergencyReply>> {
      const before = audited();
      const { action, reason = "", duration_seconds } = request;
      const reply =
        action === "activate" ? await activate(duration_seconds, reason, operator) : await deactivate(reason, operator);
      return ok(reply, { before, after: audited() });
    },
  };
}
