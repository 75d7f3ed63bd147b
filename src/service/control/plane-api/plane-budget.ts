/** Rejects what exceeds the budget of a data plane. The plane then decides by its policy, as without the service. */
import type { BudgetName, PlaneBudgets } from "../../../shared/access/plane-budgets.js";
import { type CallAccess, problem, Rejected, type Reply } from "../../operations/endpoint.js";

/** A message counts as so many bytes at least: each costs a call of the store. */
export const MESSAGE_BYTES = 1_024;

const exhausted: Record<BudgetName, string> = {
  nodes: "uses too many nodes or epochs",
  proxies: "uses too many proxies",
  pods: "names too many pods",
  values: "uses too many values of limits",
  slots: "names too many connections per second",
  bytes: "sends too many bytes per second",
};

export function overBudget(plane: string, budget: BudgetName): Reply<never> {
  const who = plane === "" ? "data planes with the common token" : `the data plane ${plane}`;
  const reply = problem(429, "too_many_requests", "plane_budget", { detail: `${who} ${exhausted[budget]}` });
  return { ...reply, headers: { "Retry-After": "1" } };
}

/** Throws a Rejected if the plane may not use another name. */
export function requireName(
  budgets: PlaneBudgets,
  { name: plane }: Pick<CallAccess, "name">,
  budget: BudgetName,
  { name, scope }: { name: string; scope?: string | number },
): void {
  if (!budgets.uses(plane, budget, name, scope)) throw new Rejected(overBudget(plane, budget));
}

/** Throws a Rejected if nothing is left. */
export function requireAmount(
  budgets: PlaneBudgets,
  { name: plane }: Pick<CallAccess, "name">,
  budget: BudgetName,
  amount: number,
): void {
  if (!budgets.spends(plane, budget, amount)) throw new Rejected(overBudget(plane, budget));
}
