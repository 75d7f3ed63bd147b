/** Orders about the tokens of apps: reconcile, borrow, repay. */

import { OK } from "../../core/codes.js";
import type { AppLimits } from "../../core/limits.js";
import type { ReconcileResult } from "../../quota/quota.js";
import type {
  BorrowOrder,
  BorrowReply,
  ReconcileOrder,
  ReconcileReply,
  RepayReply,
} from "../control/contract/contract.js";
import { answer, problem, type Reply } from "../control/endpoint.js";
import { ifAnswered, inTurns, LONG_ORDER_MS, ORDER_MS, within } from "./deadline.js";
import { explainBorrow } from "./explain.js";
import type { Knowledge } from "./knowledge.js";
import { findApp, noSuchApp } from "./unknown-app.js";

/** So many apps at a time: the store has other work. */
const AT_ONCE = 8;
const ALL_APPS = "*";

export function quotaOrders(know: Knowledge) {
  const { deps } = know;

  function reconciled(app_id: string, results: ReconcileResult[]): Reply<ReconcileReply> {
    const sum = (value: (result: ReconcileResult) => number) => results.reduce((all, one) => all + value(one), 0);
    const largest = (value: (result: ReconcileResult) => number) => Math.max(0, ...results.map(value));
    const details = {
      l2_expected_tokens: sum(({ expectedTokens }) => expectedTokens),
      l2_actual_tokens: sum(({ actualTokens }) => actualTokens),
      correction: sum(({ correction }) => correction),
    };
    const body: ReconcileReply = {
      ...{ status: "reconciled", app_id, apps: results.length, details, timestamp: know.timestamp() },
      corrections_made: sum(({ correctionsMade }) => correctionsMade),
      drift_before: largest(({ driftBefore }) => driftBefore),
      drift_after: largest(({ driftAfter }) => driftAfter),
      recovered_tokens: sum(({ recoveredTokens }) => recoveredTokens),
    };
    const before = { drift: body.drift_before, l2_tokens: details.l2_actual_tokens };
    const { corrections_made, recovered_tokens } = body;
    return answer(body, {
      before,
      after: { drift: body.drift_after, corrections_made, correction: details.correction, recovered_tokens },
    });
  }

  /** For the audit log; others may change it in the same moment. */
  async function balancesOf(app: AppLimits) {
    const balances = await ifAnswered(deps.quota.inspect(app));
    if (balances === undefined) return {};
    return { before: { debt: Math.ceil(balances.debt), remaining: Math.floor(balances.tokens) } };
  }

  return {
    async reconcile({ app_id, force }: ReconcileOrder): Promise<Reply<ReconcileReply>> {
      if (app_id !== undefined && findApp(deps.apps(), app_id) === undefined) return noSuchApp(deps.apps(), app_id);
      const ids = app_id === undefined ? deps.apps().map(({ id }) => id) : [app_id];
      const results = await within(
        app_id === undefined ? LONG_ORDER_MS : ORDER_MS,
        inTurns(ids, AT_ONCE, (id) => deps.coordinator.reconcileNow(id, force)),
      );
      const done = results.filter((result) => result !== undefined);
      if (done.length < ids.length) {
        const detail = `nodes come and go too fast: ${done.length} of ${ids.length} apps were reconciled; try again`;
        return problem(409, "conflict", "nodes_changed", { detail });
      }
      return reconciled(app_id ?? ALL_APPS, done);
    },

    async borrow({ app_id, amount }: BorrowOrder): Promise<Reply<BorrowReply>> {
      const app = findApp(deps.apps(), app_id);
      if (app === undefined) return noSuchApp(deps.apps(), app_id);
      const before = await balancesOf(app);
      const lent = await within(ORDER_MS, deps.coordinator.borrow(app_id, amount));
      const { code, borrowed, debt, remaining, borrowable } = lent;
      const isDone = code === OK;
      const numbers = { borrowed, debt, remaining, borrowable };
      return answer(
        {
          ...{ status: isDone ? "borrowed" : "refused", app_id, code, ...numbers },
          ...{ explanation: explainBorrow(lent, amount, app), timestamp: know.timestamp() },
        },
        { ...before, after: numbers, refused: !isDone },
      );
    },

    async repay({ app_id, amount }: BorrowOrder): Promise<Reply<RepayReply>> {
      const app = findApp(deps.apps(), app_id);
      if (app === undefined) return noSuchApp(deps.apps(), app_id);
      const before = await balancesOf(app);
      const { code, ...numbers } = await within(ORDER_MS, deps.coordinator.repay(app_id, amount));
      const isDone = code === OK;
      return answer(
        { status: isDone ? "repaid" : "refused", app_id, code, ...numbers, timestamp: know.timestamp() },
        { ...before, after: numbers, refused: !isDone },
      );
    },
  };
}
