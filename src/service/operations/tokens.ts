/** Operations on the tokens of apps: reconcile, borrow, repay. */
import { OK } from "../../core/codes.js";
import type { AppLimits } from "../../core/limits.js";
import type { ReconcileResult } from "../../quota/quota.js";
import { mapConcurrently } from "../../shared/concurrently.js";
import type { OperationsContext } from "./context.js";
import type { BorrowReply, BorrowRequest, ReconcileReply, ReconcileRequest, RepayReply } from "./contract/contract.js";
import { CHANGE_ALL_MS, CHANGE_MS, ifAvailable, within } from "./deadline.js";
import { explainBorrow } from "./explain.js";
import { ok, problem, type Reply } from "./reply.js";

/** Concurrent store calls. */
const CONCURRENT = 8;
const ALL_APPS = "*";

export function tokenOperations(context: OperationsContext) {
  const { coordinator } = context;

  function reconciled(app_id: string, results: ReconcileResult[]): Reply<ReconcileReply> {
    const sum = (value: (result: ReconcileResult) => number) => results.reduce((all, one) => all + value(one), 0);
    const largest = (value: (result: ReconcileResult) => number) => Math.max(0, ...results.map(value));
    const details = {
      l2_expected_tokens: sum(({ expectedTokens }) => expectedTokens),
      l2_actual_tokens: sum(({ actualTokens }) => actualTokens),
      correction: sum(({ correction }) => correction),
    };
    const corrections_made = sum(({ correctionsMade }) => correctionsMade);
    const drift_before = largest(({ driftBefore }) => driftBefore);
    const drift_after = largest(({ driftAfter }) => driftAfter);
    const recovered_tokens = sum(({ recoveredTokens }) => recoveredTokens);
    return ok(
      {
        status: "reconciled",
        app_id,
        apps: results.length,
        corrections_made,
        drift_before,
        drift_after,
        recovered_tokens,
        details,
        timestamp: context.timestamp(),
      },
      {
        before: { drift: drift_before, l2_tokens: details.l2_actual_tokens },
        after: { drift: drift_after, corrections_made, correction: details.correction, recovered_tokens },
      },
    );
  }

  /** The balances for the audit log. Other changes may happen at the same time. */
  async function balancesOf(app: AppLimits) {
    const balances = await ifAvailable(context.quota.inspect(app));
    if (balances === undefined) return {};
    return { before: { debt: Math.ceil(balances.debt), remaining: Math.floor(balances.tokens) } };
  }

  return {
    async reconcile({ app_id, force }: ReconcileRequest): Promise<Reply<ReconcileReply>> {
      if (app_id !== undefined && context.findApp(app_id) === undefined) return context.noSuchApp(app_id);
      const ids = app_id === undefined ? context.apps().map(({ id }) => id) : [app_id];
      const results = await within(
        app_id === undefined ? CHANGE_ALL_MS : CHANGE_MS,
        mapConcurrently(ids, CONCURRENT, (id) => coordinator.reconcileNow(id, force)),
      );
      const done = results.filter((result) => result !== undefined);
      if (done.length === ids.length) return reconciled(app_id ?? ALL_APPS, done);
      const detail = `the nodes change too fast: ${done.length} of ${ids.length} apps were reconciled; try again`;
      return problem(409, "conflict", "nodes_changed", { detail });
    },

    async borrow({ app_id, amount }: BorrowRequest): Promise<Reply<BorrowReply>> {
      const app = context.findApp(app_id);
      if (app === undefined) return context.noSuchApp(app_id);
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

    async repay({ app_id, amount }: BorrowRequest): Promise<Reply<RepayReply>> {
      const app = context.findApp(app_id);
      if (app === undefined) return context.noSuchApp(app_id);
      const before = await balancesOf(app);
      const { code, ...after } = await within(CHANGE_MS, coordinator.repay(app_id, amount));
      const status = code === OK ? "repaid" : "refused";
      return ok(
        { status, app_id, code, ...after, timestamp: context.timestamp() },
        { ...before, after, refused: code !== OK },
      );
    },
  };
}
