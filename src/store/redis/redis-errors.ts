/** Converts errors of Redis and ioredis to StoreErrors and decides which calls may be retried. */
import { StoreError, type StoreErrorKind } from "../errors.js";

export interface Failure {
  error: StoreError;
  /** True when the identical call may be sent again. */
  retry: boolean;
}

/** By the error code, the first part of the reply. Any other error reply is a defect of the script. */
const REPLIES: Record<string, { kind: StoreErrorKind; retry: boolean }> = {
  LOADING: { kind: "unavailable", retry: true },
  READONLY: { kind: "unavailable", retry: true },
  TRYAGAIN: { kind: "unavailable", retry: true },
  CLUSTERDOWN: { kind: "unavailable", retry: true },
  MASTERDOWN: { kind: "unavailable", retry: true },
  MOVED: { kind: "unavailable", retry: true },
  ASK: { kind: "unavailable", retry: true },
  BUSY: { kind: "unavailable", retry: true },
  NOREPLICAS: { kind: "unavailable", retry: false },
  MISCONF: { kind: "unavailable", retry: false },
  OOM: { kind: "out_of_memory", retry: false },
  NOAUTH: { kind: "denied", retry: false },
  WRONGPASS: { kind: "denied", retry: false },
  NOPERM: { kind: "denied", retry: false },
};

export function classify(thrown: unknown): Failure {
  if (thrown instanceof StoreError) return { error: thrown, retry: false };
  const cause = withoutArguments(thrown);
  const message = cause.message;
  const { kind, retry } = judge(cause, rootMessage(cause));
  return { error: new StoreError(kind, message, { cause }), retry };
}

/** The message without its kind, for use in another message. */
export function reasonOf(error: StoreError): string {
  return error.message.replace(/^store [a-z_]+: /, "");
}

/** Redis and Valkey reply "ERR Function not found" when the library is not loaded. */
export function isFunctionMissing(error: unknown): boolean {
  return error instanceof Error && /Function not found/i.test(error.message);
}

function judge(error: Error, message: string): { kind: StoreErrorKind; retry: boolean } {
  const reply = REPLIES[message.split(" ", 1)[0] as string];
  if (reply !== undefined) return reply;
  // It was loaded just now: a FUNCTION FLUSH, a failover or a redirection to another server came in between.
  if (isFunctionMissing(error)) return { kind: "unavailable", retry: true };
  // How Redis 7.0 reports a missing permission inside a script.
  if (message.includes("The user executing the script")) return { kind: "denied", retry: false };
  if (message.includes("max number of clients reached")) return { kind: "unavailable", retry: true };
  if (error.name === "ReplyError") return { kind: "script", retry: false };
  return { kind: "unavailable", retry: true };
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
