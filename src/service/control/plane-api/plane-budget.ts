/**
 * Rejects what a data plane may not do: act for the nodes of others, or exceed its budget. Then it decides by its policy, as without
 * the service.
 */
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

/**
 * Throws a Rejected unless `node`, which may be a proxy that holds connections, is one of the plane's own: a compromised plane with
 * credentials of its own harms no other.
 */
export function requireOwn({ name, mayActFor }: CallAccess, node: string): void {
  if (mayActFor(node)) return;
  const detail = `the data plane ${name} may act only for ${name}, ${name}-… and ${name}.…`;
  throw new Rejected(problem(403, "forbidden", "wrong_plane", { detail }));
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
