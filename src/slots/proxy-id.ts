/** The name of a process in one life of it: what it held before a restart is not its own any more. */
import { randomBytes } from "node:crypto";

/** An identifier, as ids are in the store, whatever the node is called. */
export function newProxyId(node: string): string {
  const name = node.replace(/[^A-Za-z0-9._:-]/g, "-").slice(0, 100);
  return `${name}.${Date.now().toString(36)}${randomBytes(4).toString("hex")}`;
}
