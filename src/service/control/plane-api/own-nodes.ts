/** A data plane with credentials of its own may act only for its own nodes: a compromised one harms no other. */
import { type CallAccess, problem, Rejected } from "../../operations/endpoint.js";

/** Throws a Rejected. `node`: a node, or a proxy that holds connections. */
export function requireOwn({ name, mayActFor }: CallAccess, node: string): void {
  if (mayActFor(node)) return;
  const detail = `the data plane ${name} may act only for ${name}, ${name}-… and ${name}.…`;
  throw new Rejected(problem(403, "forbidden", "wrong_plane", { detail }));
}
