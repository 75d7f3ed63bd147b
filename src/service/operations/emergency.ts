/** The cluster's emergency: what it is, and the operator's orders. */
import { BY_NOBODY, BY_USAGE, emergencyRatio } from "../../core/emergency.js";
import type { EmergencyCommand, EmergencyReply, EmergencyStateReply } from "../control/contract/contract.js";
import { answer, type Reply } from "../control/endpoint.js";
import { ORDER_MS, within } from "./deadline.js";
import type { Knowledge } from "./knowledge.js";

const MOST_NAMED = 1_000;

/** The store's word for who began it, in the contract's. */
export function sourceName(source: string): string {
  if (source === BY_NOBODY) return "";
  return source === BY_USAGE ? "automatic" : source;
}

export function emergencyOperations(know: Knowledge) {
  const { deps } = know;

  /** Apps that get less while it lasts. */
  function affected(): string[] {
    const names: string[] = [];
    for (const { id, priority } of deps.apps()) {
      if (emergencyRatio(priority) < 1) names.push(id);
      if (names.length === MOST_NAMED) break;
    }
    return names;
  }

  function state(): EmergencyStateReply {
    const { active, source, sinceMs, leftMs } = deps.coordinator.emergency();
    return {
      emergency_mode: active,
      source: sourceName(source),
      started_at: active ? new Date(sinceMs).toISOString() : null,
      expires_at: active && leftMs > 0 ? new Date(know.now() + leftMs).toISOString() : null,
      affected_apps: active ? affected() : [],
      timestamp: know.timestamp(),
    };
  }

  const shown = ({ emergency_mode, source, expires_at }: EmergencyStateReply) => ({
    ...{ emergency_mode, source, expires_at },
  });

  async function activate(durationSeconds: number, reason: string, operator: string): Promise<EmergencyReply> {
    const durationMs = Math.ceil(durationSeconds * 1000);
    const { sinceMs, untilMs } = await within(ORDER_MS, deps.coordinator.emergencyOn(durationMs, reason, operator));
    return {
      ...{ status: "emergency_activated", emergency_mode: true, reason, operator },
      started_at: new Date(sinceMs).toISOString(),
      expires_at: untilMs === 0 ? null : new Date(untilMs).toISOString(),
      affected_apps: affected(),
      timestamp: know.timestamp(),
    };
  }

  async function deactivate(reason: string, operator: string): Promise<EmergencyReply> {
    await within(ORDER_MS, deps.coordinator.emergencyOff(operator, reason));
    // A bucket that is still as empty as that begins another one at once.
    const { emergency_mode, started_at, expires_at, affected_apps } = state();
    return {
      ...{ status: "emergency_deactivated", emergency_mode, reason, operator },
      ...{ started_at, expires_at, affected_apps, timestamp: know.timestamp() },
    };
  }

  return {
    emergency: async (): Promise<Reply<EmergencyStateReply>> => answer(state()),

    async setEmergency(order: EmergencyCommand, operator: string): Promise<Reply<EmergencyReply>> {
      const before = shown(state());
      const { action, reason = "", duration_seconds } = order;
      const reply =
        action === "activate" ? await activate(duration_seconds, reason, operator) : await deactivate(reason, operator);
      return answer(reply, { before, after: shown(state()) });
    },
  };
}
