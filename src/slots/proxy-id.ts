/** Name of a process, new after each restart: slots that it held before belong to the former name. */
import { randomBytes } from "node:crypto";

/** A valid identifier for the store, whatever the node's name contains. */
export function newProxyId(node: string): string {
  const name = node.replace(/[^A-Za-z0-9._:-]/g, "-").slice(0, 100);
  return `${name}.${Date.now().toString(36)}${randomBytes(4).toString("hex")}`;
}
