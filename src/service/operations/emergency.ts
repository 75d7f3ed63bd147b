/** The cluster's emergency: reads it, and turns it on and off. */
import { BY_NOBODY, BY_USAGE, emergencyRatio } from "../../core/emergency.js";
import type { OperationsContext } from "./context.js";
import * as contract from "./contract/contract.js";
import { CHANGE_MS, within } from "./deadline.js";
import { admin, type Endpoint, ok } from "./endpoint.js";

const MOST_NAMED = 1_000;

/** The API name of the store's emergency source. */
export function emergencySource(source: string): string {
  if (source === BY_NOBODY) return "";
  return source === BY_USAGE ? "automatic" : source;
}

export function emergencyEndpoints(context: OperationsContext): Endpoint[] {
  const { coordinator } = context;

  /** Apps with a reduced quota during an emergency. */
  function affected(): string[] {
    const reduced = context.apps().filter(({ priority }) => emergencyRatio(priority) < 1);
    return reduced.slice(0, MOST_NAMED).map(({ id }) => id);
  }

  function state(): contract.EmergencyStateReply {
    const { active, source, sinceMs, leftMs, burstsStopped, reason, operator } = coordinator.emergency();
    return {
      emergency_mode: active,
      bursts_stopped: burstsStopped,
      source: emergencySource(source),
      reason,
      operator,
      started_at: active ? new Date(sinceMs).toISOString() : null,
      expires_at: active && leftMs > 0 ? new Date(Date.now() + leftMs).toISOString() : null,
      affected_apps: active ? affected() : [],
      timestamp: context.timestamp(),
    };
  }

  function audited() {
    const { emergency_mode, bursts_stopped, source, reason, operator, expires_at } = state();
    return { emergency_mode, bursts_stopped, source, reason, operator, expires_at };
  }

  return [
    admin("GET", "emergency", {
      summary: "Whether the cluster is in an emergency, since when and until when.",
      reply: contract.emergencyState,
      handle: () => ok(state()),
    }),

    admin("POST", "emergency", {
      summary: "Turns the emergency of the whole cluster on or off.",
      action: "emergency",
      request: contract.emergencyRequest,
      reply: contract.emergencyReply,
      async handle({ body: { action, reason = "", duration_seconds }, operator }) {
        const before = audited();
        if (action === "deactivate") {
          await within(CHANGE_MS, coordinator.emergencyOff());
          // If usage is still high, another emergency may already have begun.
          const { source: _, ...now } = state();
          return ok({ ...now, status: "emergency_deactivated", reason, operator }, { before, after: audited() });
        }
        const durationMs = Math.ceil(duration_seconds * 1000);
        const { sinceMs, untilMs } = await within(CHANGE_MS, coordinator.emergencyOn(durationMs, reason, operator));
        const reply = {
          status: "emergency_activated" as const,
          emergency_mode: true,
          bursts_stopped: coordinator.emergency().burstsStopped,
          reason,
          operator,
          started_at: new Date(sinceMs).toISOString(),
          expires_at: untilMs === 0 ? null : new Date(untilMs).toISOString(),
          affected_apps: affected(),
          timestamp: context.timestamp(),
        };
        return ok(reply, { before, after: audited() });
      },
    }),
  ];
}
