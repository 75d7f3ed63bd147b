/** How a command can end, as scripts see it: the only list of exit codes. */

export const FINE = 0;
export const REFUSED = 1;
export const WRONG_CALL = 2;
export const UNREACHABLE = 3;
export const NOT_ALLOWED = 4;
export const UNHEALTHY = 5;

export const exitCodes: readonly [code: number, meaning: string][] = [
  [FINE, "fine"],
  [REFUSED, "refused or failed: what was asked for did not happen"],
  [WRONG_CALL, "wrong call: an option or argument is missing or not right"],
  [UNREACHABLE, "no tollgate answers there, or not in time"],
  [NOT_ALLOWED, "not allowed: the token or the address is not right (401, 403)"],
  [UNHEALTHY, "it answers but is not well (health), or not in its normal mode (status)"],
];

/** Ends a command with a sentence for stderr and an exit code of its own. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly exitCode: number,
    /** What the service said, for --json. */
    readonly reply?: unknown,
  ) {
    super(message);
  }
}
