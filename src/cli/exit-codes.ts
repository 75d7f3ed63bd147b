/** The exit codes of all commands. */

export const FINE = 0;
export const REFUSED = 1;
export const WRONG_CALL = 2;
export const UNREACHABLE = 3;
export const NOT_ALLOWED = 4;
export const UNHEALTHY = 5;

export const exitCodes: readonly [code: number, meaning: string][] = [
  [FINE, "success"],
  [REFUSED, "refused or failed: the requested action was not performed"],
  [WRONG_CALL, "usage error: an option or argument is missing or invalid"],
  [UNREACHABLE, "no tollgate replied at this address, or not in time"],
  [NOT_ALLOWED, "not allowed: the token or the client address was rejected (401, 403)"],
  [UNHEALTHY, "the service replied but is unhealthy (health) or not in normal mode (status)"],
];

/** Ends a command with a message for stderr and an exit code. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly exitCode: number,
    /** The reply of the service, for --json. */
    readonly reply?: unknown,
  ) {
    super(message);
  }
}
