/** Answers data planes: books what they spent and grants what they need, as the quota decides. */
import { OK, UNKNOWN_APP } from "../core/codes.js";
import {
  defaultDegradationPolicy,
  degradationLevel,
  newDegradation,
  observeCall,
  STORE_ERROR,
  STORE_OK,
  STORE_TIMEOUT,
} from "../core/degradation.js";
import type { AppPolicy } from "../quota/policy.js";
import type { NodeAnswer, Quota } from "../quota/quota.js";
import { StoreError } from "../store/errors.js";
import type { SyncAnswer, SyncMessage } from "./sync-message.js";

export interface SyncHandlerOptions {
  quota: Pick<Quota, "grant" | "settle">;
  apps: AppPolicy[];
  configVersion: string;
  timeoutMs: number;
  /** Milliseconds that never go back. */
  now?: () => number;
}

/** Rejects with a StoreError where the store fails, and with a RefusedArgument where it refuses a number. */
export type SyncHandler = (message: SyncMessage) => Promise<SyncAnswer>;

export function createSyncHandler(options: SyncHandlerOptions): SyncHandler {
  const { quota, configVersion, timeoutMs, now = () => performance.now() } = options;
  const policies = new Map(options.apps.map((app) => [app.id, app]));
  const degradation = newDegradation(defaultDegradationPolicy);

  /** How well the store answers as the service sees it: data planes do not see the store themselves. */
  async function watched<T>(call: () => Promise<T>): Promise<T> {
    const started = now();
    const note = (outcome: number) =>
      observeCall(degradation, defaultDegradationPolicy, now(), outcome, now() - started);
    try {
      const answer = await call();
      note(STORE_OK);
      return answer;
    } catch (error) {
      if (error instanceof StoreError) note(error.kind === "timeout" ? STORE_TIMEOUT : STORE_ERROR);
      throw error;
    }
  }

  async function answerTo({ node, epoch, seq, leave, apps }: SyncMessage) {
    const sender = { node, epoch, seq };
    const known = apps.flatMap(({ app, ...counters }) => {
      const policy = policies.get(app);
      return policy === undefined ? [] : [{ ...counters, app: policy }];
    });
    const deadline = { deadlineMs: timeoutMs };
    if (!leave) return quota.grant(sender, known, deadline);
    const settled = await quota.settle(sender, known, true, deadline);
    const limit = (app: string) => policies.get(app)?.burst ?? 0;
    return {
      ...settled,
      apps: settled.apps.map((one) => ({ ...one, code: OK, limit: limit(one.app), retryAfterMs: 0 })),
    };
  }

  return async (message) => {
    const answer = await watched(() => answerTo(message));
    const granted = new Map(answer.apps.map((one) => [one.app, one]));
    return {
      ...headOf(answer),
      degradation: degradationLevel(degradation, defaultDegradationPolicy, now()),
      config_version: configVersion,
      apps: message.apps.flatMap(({ app, granted: before }) => {
        const one = granted.get(app);
        // A lease is a ledger of its own: who is not configured must spend from the lease of the app "default".
        if (one === undefined) return policies.has(app) ? [] : [unknownApp(app)];
        return [
          {
            ...{ app, code: one.code, grant: Math.max(one.granted - before, 0), granted: one.granted },
            ...{ remaining: one.remaining, limit: one.limit, retry_after_ms: one.retryAfterMs },
          },
        ];
      }),
    };
  };
}

function headOf({ code, liveNodes, emergency, emergencyLeftMs }: NodeAnswer) {
  return { code, live_nodes: liveNodes, emergency, emergency_left_ms: emergencyLeftMs };
}

function unknownApp(app: string): SyncAnswer["apps"][number] {
  return { app, code: UNKNOWN_APP, grant: 0, granted: 0, remaining: 0, limit: 0, retry_after_ms: 0 };
}
