/** Flags of Node for worker processes. */

/**
 * Newer versions of Node let the young generation of each process grow to 192 MB, three times this. The gateway is not faster
 * with it.
 */
const SEMI_SPACE = "--max-semi-space-size=16";
const SEMI_SPACE_FLAG = /--max[-_]semi[-_]space[-_]size/;

/** Those of this process, with a bound on the young generation unless the operator has set one. */
export function workerFlags(own: readonly string[], nodeOptions = ""): string[] {
  return SEMI_SPACE_FLAG.test(`${own.join(" ")} ${nodeOptions}`) ? [...own] : [...own, SEMI_SPACE];
}
