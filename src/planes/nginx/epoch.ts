/** The numbers by which the store tells one life of a node from another. */
import { luaMath } from "../lua/library.js";
import { ngx } from "./ngx.js";

/** Of two nodes that begin in the same millisecond, too, under the same name. Whole, and below 2^53 until 2248. */
const PER_MILLISECOND = 1024;

/** Later than the one before, and as good as never the same as another node's. */
export function newEpoch(before: number): number {
  const begun = Math.floor(ngx.now() * 1000) * PER_MILLISECOND + luaMath.random(0, PER_MILLISECOND - 1);
  return Math.max(begun, before + 1);
}
