/** Operations on the tokens of apps: reconcile, borrow, repay. */
import { randomUUID } from "node:crypto";
import type { AppLimits } from "../../core/app-limits.js";
import { OK } from "../../core/codes.js";
import type { ReconcileResult } from "../../quota/quota.js";
import { mapConcurrently } from "../../shared/concurrently.js";
import { type OperationsContext, unknownApp } from "./context.js";
import * as contract from "./contract/contract.js";
import { CHANGE_ALL_MS, CHANGE_MS, ifAvailable, within } from "./deadline.js";
import { admin, type Endpoint, ok, problem } from "./endpoint.js";
import { explainBorrow } from "./explain.js";

/** Concurrent store calls. */
const CONCURRENT = 8;
const ALL_APPS = "*";

export function tokenEndpoints(context: OperationsContext): Endpoint[] {
  const { coordinator } = context;

  function reconciled(app_id: string, results: ReconcileResult[]) {
    const sum = (name: keyof ReconcileResult) => results.reduce((all, one) => all + one[name], 0);
    const largest = (name: keyof ReconcileResult) => Math.max(0, ...results.map((one) => one[name]));
    const correction = sum("correction");
    const details = { l2_expected_tokens: sum("expectedTokens"), l2_actual_tokens: sum("actualTokens"), correction };
    const drifts = { drift_before: largest("driftBefore"), drift_after: largest("driftAfter") };
    const done = { corrections_made: sum("correctionsMade"), recovered_tokens: sum("recoveredTokens") };
    const timestamp = context.timestamp();
    return ok(
      { status: "reconciled" as const, app_id, apps: results.length, ...done, ...drifts, details, timestamp },
      {
        before: { drift: drifts.drift_before, l2_tokens: details.l2_actual_tokens },
        after: { drift: drifts.drift_after, correction, ...done },
      },
    );
  }

  /** The balances for the audit log. Other changes may happen at the same time. */
  async function balancesOf(app: AppLimits) {
    const balances = await ifAvailable(context.quota.inspect(app));
    if (balances === undefined) return {};
    return { before: { debt: Math.ceil(balances.debt), remaining: Math.floor(balances.tokens) } };
  }

  /** A bucket below zero has nothing to repay from: the operator forgives what is missing. */
  async function repay(app: AppLimits, amount: number) {
    const { tokens, debt } = await within(CHANGE_MS, context.quota.inspect(app));
    const forgiven = Math.min(amount, Math.max(Math.ceil(-tokens), 0));
    if (forgiven === 0) return within(CHANGE_MS, coordinator.repay(app.id, amount));
    const { remaining } = await within(CHANGE_MS, context.quota.credit(app, forgiven, randomUUID()));
    if (forgiven === amount) return { code: OK, repaid: forgiven, debt: Math.ceil(debt), remaining };
    const { repaid, ...rest } = await within(CHANGE_MS, coordinator.repay(app.id, amount - forgiven));
    return { ...rest, repaid: repaid + forgiven };
  }

  return [
    admin("POST", "reconcile", {
      summary: "Corrects the bucket of one app, or of all, by the counters of the nodes.",
      action: "reconcile",
      request: contract.reconcileRequest,
      reply: contract.reconcileReply,
      others: { ...unknownApp, 409: { summary: "The nodes change too fast: try again." } },
      async handle({ body: { app_id, force } }) {
        const ids = app_id === undefined ? context.apps().map(({ id }) => id) : [context.findApp(app_id).id];
        const results = await within(
          app_id === undefined ? CHANGE_ALL_MS : CHANGE_MS,
          mapConcurrently(ids, CONCURRENT, (id) => coordinator.reconcileNow(id, force)),
        );
        const done = results.filter((result) => result !== undefined);
        if (done.length === ids.length) return reconciled(app_id ?? ALL_APPS, done);
        const detail = `the nodes change too fast: ${done.length} of ${ids.length} apps were reconciled; try again`;
        return problem(409, "conflict", "nodes_changed", { detail });
      },
    }),

    admin("POST", "borrow", {
      summary: "Lends idle cluster tokens to an app, for 120 % debt. The whole amount or nothing.",
      action: "borrow",
      request: contract.borrowRequest,
      reply: contract.borrowReply,
      others: unknownApp,
      async handle({ body: { app_id, amount } }) {
        const app = context.findApp(app_id);
        const before = await balancesOf(app);
        const loan = await within(CHANGE_MS, coordinator.borrow(app_id, amount));
        const { code, borrowed, debt, remaining, borrowable } = loan;
        const after = { borrowed, debt, remaining, borrowable };
        const explanation = explainBorrow(loan, amount, app);
        const status = code === OK ? "borrowed" : "refused";
        return ok(
          { status, app_id, code, ...after, explanation, timestamp: context.timestamp() },
          { ...before, after, refused: code !== OK },
        );
      },
    }),

    admin("POST", "repay", {
      summary:
        "Forgives tokens that were spent without cover, then repays borrowed tokens from the bucket, as far as it has some.",
      action: "repay",
      request: contract.borrowRequest,
      reply: contract.repayReply,
      others: unknownApp,
      async handle({ body: { app_id, amount } }) {
        const app = context.findApp(app_id);
        const before = await balancesOf(app);
        const { code, ...after } = await repay(app, amount);
        const status = code === OK ? "repaid" : "refused";
        return ok(
          { status, app_id, code, ...after, timestamp: context.timestamp() },
          { ...before, after, refused: code !== OK },
        );
      },
    }),
  ];
}
