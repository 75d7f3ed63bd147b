/** Converts errors of Redis and ioredis to StoreErrors and decides which calls may be retried. */
import { StoreError, type StoreErrorKind } from "../errors.js";

/** The reply of Redis and Valkey when the library is not loaded. */
const FUNCTION_MISSING = /Function not found/i;

/** By the error code, which starts the reply, or by a text. Any other error reply is a defect of the script. */
const REPLIES: [reply: RegExp, kind: StoreErrorKind, retry: boolean][] = [
  [/^(LOADING|READONLY|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|MOVED|ASK|BUSY)( |$)/, "unavailable", true],
  [/^(NOREPLICAS|MISCONF)( |$)/, "unavailable", false],
  [/^OOM( |$)/, "out_of_memory", false],
  [/^(NOAUTH|WRONGPASS|NOPERM)( |$)/, "denied", false],
  // It was loaded just now: a FUNCTION FLUSH, a failover or a redirection to another server came in between.
  [FUNCTION_MISSING, "unavailable", true],
  // How Redis 7.0 reports a missing permission inside a script.
  [/The user executing the script/, "denied", false],
  [/max number of clients reached/, "unavailable", true],
];

/** `retry` is true when the identical call may be sent again. */
export function classify(thrown: unknown): { error: StoreError; retry: boolean } {
  if (thrown instanceof StoreError) return { error: thrown, retry: false };
  const cause = withoutArguments(thrown);
  const message = rootMessage(cause);
  const isDefect = cause.name === "ReplyError";
  const [, kind = isDefect ? "script" : "unavailable", retry = !isDefect] =
    REPLIES.find(([reply]) => reply.test(message)) ?? [];
  return { error: new StoreError(kind, cause.message, { cause }), retry };
}

/** The message without its kind, for use in another message. */
export function reasonOf(error: StoreError): string {
  return error.message.replace(/^store [a-z_]+: /, "");
}

export function isFunctionMissing(error: unknown): boolean {
  return error instanceof Error && FUNCTION_MISSING.test(error.message);
}

/** The hash slot is served by another server. */
export function isRedirection(error: unknown): boolean {
  return error instanceof Error && /^(MOVED|ASK) /.test(error.message);
}

/** ioredis wraps errors: "Too many Cluster redirections. Last error: ReplyError: TRYAGAIN …", and `lastNodeError`. */
function rootMessage(error: Error): string {
  const inner = "lastNodeError" in error && error.lastNodeError instanceof Error ? error.lastNodeError.message : "";
  return (inner || error.message).replace(/^.*Last error: (?:[A-Za-z]*Error: )*/s, "");
}

/** ioredis attaches the command to its errors: the arguments of AUTH are a password, those of FUNCTION LOAD a library. */
function withoutArguments(thrown: unknown): Error {
  if (!(thrown instanceof Error)) return new Error(String(thrown));
  for (const error of [thrown, (thrown as { lastNodeError?: unknown }).lastNodeError]) {
    const command = (error as { command?: { args?: unknown } } | undefined)?.command;
    if (command !== undefined) delete command.args;
  }
  return thrown;
}
