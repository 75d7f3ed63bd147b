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
  /** As they are now; the same list while nothing has changed. */
  apps(): readonly AppPolicy[];
  configVersion(): string;
  timeoutMs(): number;
  /** The level that an operator pinned, if so. */
  pinnedLevel?(): number | undefined;
  /** A message was answered, or could not be. Must not throw. */
  synced?(outcome: "ok" | "error" | "timeout", milliseconds: number, apps: number): void;
  /** Milliseconds that never go back. */
  now?: () => number;
}

export interface SyncHandler {
  /** Rejects with a StoreError where the store fails, and with a RefusedArgument where it refuses a number. */
  (message: SyncMessage): Promise<SyncAnswer>;
  /** The level that data planes are told. */
  level(): number;
}

export function createSyncHandler(options: SyncHandlerOptions): SyncHandler {
  const { quota, now = () => performance.now(), pinnedLevel = () => undefined } = options;
  const degradation = newDegradation(defaultDegradationPolicy);
  let listed: readonly AppPolicy[] | undefined;
  let policies = new Map<string, AppPolicy>();

  function currentPolicies(): Map<string, AppPolicy> {
    const apps = options.apps();
    if (apps !== listed) policies = new Map(apps.map((app) => [app.id, app]));
    listed = apps;
    return policies;
  }

  const level = () => pinnedLevel() ?? degradationLevel(degradation, defaultDegradationPolicy, now());

  /** How well the store answers as the service sees it: data planes do not see the store themselves. */
  async function watched<T>(apps: number, call: () => Promise<T>): Promise<T> {
    const started = now();
    function note(outcome: number, name: "ok" | "error" | "timeout"): void {
      const ended = now();
      observeCall(degradation, defaultDegradationPolicy, ended, outcome, ended - started);
      options.synced?.(name, ended - started, apps);
    }
    try {
      const answer = await call();
      note(STORE_OK, "ok");
      return answer;
    } catch (error) {
      if (error instanceof StoreError && error.kind === "timeout") note(STORE_TIMEOUT, "timeout");
      else if (error instanceof StoreError) note(STORE_ERROR, "error");
      throw error;
    }
  }

  async function answerTo({ node, epoch, seq, leave, apps }: SyncMessage, known: Map<string, AppPolicy>) {
    const sender = { node, epoch, seq };
    const requests = apps.flatMap(({ app, ...counters }) => {
      const policy = known.get(app);
      return policy === undefined ? [] : [{ ...counters, app: policy }];
    });
    const deadline = { deadlineMs: options.timeoutMs() };
    if (!leave) return quota.grant(sender, requests, deadline);
    const settled = await quota.settle(sender, requests, true, deadline);
    const limit = (app: string) => known.get(app)?.burst ?? 0;
    return {
      ...settled,
      apps: settled.apps.map((one) => ({ ...one, code: OK, limit: limit(one.app), retryAfterMs: 0 })),
    };
  }

  async function handle(message: SyncMessage): Promise<SyncAnswer> {
    // One and the same list for the whole message: a reload may come while the store is asked.
    const known = currentPolicies();
    const answer = await watched(message.apps.length, () => answerTo(message, known));
    const granted = new Map(answer.apps.map((one) => [one.app, one]));
    return {
      ...headOf(answer),
      degradation: level(),
      config_version: options.configVersion(),
      apps: message.apps.flatMap(({ app, granted: before }) => {
        const one = granted.get(app);
        // A lease is a ledger of its own: who is not configured must spend from the lease of the app "default".
        if (one === undefined) return known.has(app) ? [] : [unknownApp(app)];
        return [
          {
            ...{ app, code: one.code, grant: Math.max(one.granted - before, 0), granted: one.granted },
            ...{ remaining: one.remaining, limit: one.limit, retry_after_ms: one.retryAfterMs },
          },
        ];
      }),
    };
  }

  return Object.assign(handle, { level });
}

function headOf({ code, liveNodes, emergency, emergencyLeftMs }: NodeAnswer) {
  return { code, live_nodes: liveNodes, emergency, emergency_left_ms: emergencyLeftMs };
}

function unknownApp(app: string): SyncAnswer["apps"][number] {
  return { app, code: UNKNOWN_APP, grant: 0, granted: 0, remaining: 0, limit: 0, retry_after_ms: 0 };
}
