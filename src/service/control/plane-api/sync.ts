/** Answers data planes: books what they spent and grants what they need, as the quota decides. */

import { MAX_TOKENS } from "../../../core/bucket.js";
import { OK, UNKNOWN_APP } from "../../../core/codes.js";
import {
  defaultDegradationOptions,
  degradationLevel,
  newDegradation,
  observeCall,
  STORE_ERROR,
  STORE_OK,
  STORE_TIMEOUT,
} from "../../../core/degradation.js";
import { nodeInEpoch } from "../../../core/keys.js";
import type { BucketLimits } from "../../../core/limits.js";
import type { GrantRequest, NodeReply, Quota } from "../../../quota/quota.js";
import { StoreError } from "../../../store/errors.js";
import type { PlaneReport } from "../../metrics/reports.js";
import type { SyncAnswer, SyncMessage } from "./sync-message.js";

export interface SyncHandlerOptions {
  quota: Pick<Quota, "grant" | "report" | "ledger">;
  /** As they are now; the same list while nothing has changed. */
  apps(): readonly BucketLimits[];
  configVersion(): string;
  timeoutMs(): number;
  /** The level that an operator pinned, if so. */
  pinnedLevel?(): number | undefined;
  /** A message was answered, or could not be. Must not throw. */
  synced?(outcome: "ok" | "error" | "timeout", milliseconds: number, apps: number): void;
  /** What a data plane has counted, once its message is about to be answered. Must not throw. */
  counted?(node: string, epoch: number, numbers: PlaneReport): void;
  /** Milliseconds that never go back. */
  now?: () => number;
}

export interface SyncHandler {
  /** Rejects with a StoreError where the store fails, and with a InvalidArgument where it refuses a number. */
  (message: SyncMessage): Promise<SyncAnswer>;
  /** The level that data planes are told. */
  level(): number;
}

export function createSyncHandler(options: SyncHandlerOptions): SyncHandler {
  const { quota, now = () => performance.now(), pinnedLevel = () => undefined } = options;
  const degradation = newDegradation(defaultDegradationOptions);
  let listed: readonly BucketLimits[] | undefined;
  let policies = new Map<string, BucketLimits>();
  /** Of apps that were removed: nodes may still hold tokens of them. It grows with what operators remove. */
  const former = new Map<string, BucketLimits>();

  function currentPolicies(): Map<string, BucketLimits> {
    const apps = options.apps();
    if (apps === listed) return policies;
    listed = apps;
    for (const [id, policy] of policies) former.set(id, policy);
    policies = new Map(apps.map((app) => [app.id, app]));
    for (const id of policies.keys()) former.delete(id);
    return policies;
  }

  const level = () => pinnedLevel() ?? degradationLevel(degradation, defaultDegradationOptions, now());

  /** How well the store answers as the service sees it: data planes do not see the store themselves. */
  async function watched<T>(apps: number, call: () => Promise<T>): Promise<T> {
    const started = now();
    function note(outcome: number, name: "ok" | "error" | "timeout"): void {
      const ended = now();
      observeCall(degradation, defaultDegradationOptions, ended, outcome, ended - started);
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

  /**
   * What is asked of the store. An app that is not configured gets nothing; but what the node has on record of it is
   * settled, so that what it spent is charged and what it gives back is back. Ids that the store never heard of from this
   * node leave no trace in it.
   */
  async function requestsOf({ node, epoch, apps }: SyncMessage, known: Map<string, BucketLimits>) {
    const strangers = apps.some(({ app, granted, spent }) => !known.has(app) && granted + spent > 0);
    const ledger = strangers ? await quota.ledger(nodeInEpoch(node, String(epoch))) : undefined;
    const onRecord = new Set(ledger?.apps.map(({ app }) => app));
    return apps.flatMap(({ app: id, ...message }): GrantRequest[] => {
      const app = known.get(id);
      if (app !== undefined) return [{ ...message, app }];
      return onRecord.has(id) ? [{ ...message, app: former.get(id) ?? asItIs(id), need: 0, want: 0 }] : [];
    });
  }

  async function answerTo(message: SyncMessage, known: Map<string, BucketLimits>) {
    const { node, epoch, seq, leave } = message;
    const sender = { node, epoch, seq };
    const requests = await requestsOf(message, known);
    const deadline = { deadlineMs: options.timeoutMs() };
    if (!leave) return quota.grant(sender, requests, deadline);
    const reported = await quota.report(sender, requests, true, deadline);
    const limit = (app: string) => known.get(app)?.burst ?? 0;
    return {
      ...reported,
      apps: reported.apps.map((one) => ({ ...one, code: OK, limit: limit(one.app), retryAfterMs: 0 })),
    };
  }

  async function handle(message: SyncMessage): Promise<SyncAnswer> {
    // One and the same list for the whole message: a reload may come while the store is asked.
    const known = currentPolicies();
    const answer = await watched(message.apps.length, () => answerTo(message, known));
    const { node, epoch, numbers } = message;
    if (numbers !== undefined) options.counted?.(node, epoch, numbers);
    const granted = new Map(answer.apps.map((one) => [one.app, one]));
    return {
      ...headOf(answer),
      degradation: level(),
      config_version: options.configVersion(),
      apps: message.apps.flatMap(({ app, granted: before }) => {
        const one = granted.get(app);
        // Of a message that was not booked nothing can be said.
        if (!known.has(app)) return answer.code === OK ? [unknownApp(app, one?.granted ?? before, before)] : [];
        if (one === undefined) return [];
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

function headOf({ code, liveNodes, emergency, emergencyLeftMs }: NodeReply) {
  return { code, live_nodes: liveNodes, emergency, emergency_left_ms: emergencyLeftMs };
}

/** The limits of an app that nobody here remembers: its bucket keeps what it has. */
function asItIs(id: string): BucketLimits {
  return { id, burst: MAX_TOKENS, guaranteed: 0, priority: 0, borrow: false };
}

/** So often it is worth asking whether the app has been configured meanwhile. */
const UNKNOWN_APP_RETRY_MS = 1000;

/** A lease is a ledger of its own: who is not configured must spend from the lease of the app "default". */
function unknownApp(app: string, granted: number, before: number): SyncAnswer["apps"][number] {
  return {
    ...{ app, code: UNKNOWN_APP, grant: Math.max(granted - before, 0), granted },
    ...{ remaining: 0, limit: 0, retry_after_ms: UNKNOWN_APP_RETRY_MS },
  };
}
