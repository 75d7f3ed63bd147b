/**
 * Refunds to nodes of Envoys, in the store. A node may not have reported the spending yet, and has no timer to do so: what
 * cannot be refunded is tried again for a while. A lost refund costs the app the estimate of an aborted exchange, no more.
 */
import { randomUUID } from "node:crypto";
import { MAX_TOKENS } from "../../core/bucket.js";
import type { AppLimits } from "../../core/limits.js";
import type { Quota } from "../../quota/quota.js";
import { type Clock, systemClock } from "../../shared/clock.js";
import type { Log } from "../../shared/log.js";

export interface RefundsOptions {
  quota: Pick<Quota, "refund">;
  log: Pick<Log, "debug">;
  clock?: Clock;
}

export interface RefundClaim {
  /** The data plane that claims it; empty for those that share the common token. */
  plane: string;
  /** In its epoch. */
  node: string;
  limits: AppLimits;
  tokens: number;
}

interface Refund extends RefundClaim {
  /** Repeated if the store does not answer. */
  operation: string;
  triedAfterMs: number;
  dueAt: number;
}

const FIRST_MS = 500;
/** Each delay is twice the one before; together about two minutes. */
const LONGEST_MS = 64_000;
/** Claims of one plane that wait: they may be lies. */
const MAX_WAITING = 1_000;

export type Refunds = ReturnType<typeof createRefunds>;

export function createRefunds({ quota, log, clock = systemClock }: RefundsOptions) {
  const planes = new Map<string, Map<string, Refund>>();
  let cancel: (() => void) | undefined;
  let sending: Promise<void> | undefined;

  const waiting = () => [...planes.values()].flatMap((queue) => [...queue.values()]);

  function start(): void {
    cancel ??= clock.after(FIRST_MS, () => {
      cancel = undefined;
      sending ??= send(clock.now()).finally(() => {
        sending = undefined;
        if (planes.size > 0) start();
      });
    });
  }

  async function send(now: number): Promise<void> {
    for (const refund of waiting()) {
      if (refund.dueAt > now) continue;
      const { limits, node, tokens, operation } = refund;
      try {
        const { refunded } = await quota.refund(limits, node, tokens, operation);
        refund.tokens -= refunded;
        if (refunded > 0) refund.operation = randomUUID();
      } catch (error) {
        log.debug({ err: error, node }, "a refund was not recorded");
      }
      refund.triedAfterMs *= 2;
      refund.dueAt = now + refund.triedAfterMs;
      if (refund.tokens === 0 || refund.triedAfterMs > LONGEST_MS) remove(refund);
    }
  }

  const keyOf = ({ node, limits }: RefundClaim) => `${node} ${limits.id}`;

  function remove(refund: Refund): void {
    const queue = planes.get(refund.plane);
    queue?.delete(keyOf(refund));
    if (queue?.size === 0) planes.delete(refund.plane);
  }

  return {
    add(claim: RefundClaim): void {
      const queue = planes.get(claim.plane) ?? new Map<string, Refund>();
      planes.set(claim.plane, queue);
      const known = queue.get(keyOf(claim));
      if (known !== undefined) known.tokens = Math.min(known.tokens + claim.tokens, MAX_TOKENS);
      else if (queue.size < MAX_WAITING) {
        const dueAt = clock.now() + FIRST_MS;
        queue.set(keyOf(claim), { ...claim, operation: randomUUID(), triedAfterMs: FIRST_MS / 2, dueAt });
      }
      start();
    },
    waiting: () => waiting().length,
    /** Tries once more. */
    async close(): Promise<void> {
      cancel?.();
      await sending;
      await send(Number.POSITIVE_INFINITY);
      planes.clear();
    },
  };
}
