/** Turns what Redis and ioredis say into the store's own errors, and tells which of them a repetition can cure. */
import { StoreError, type StoreErrorKind } from "../errors.js";

export interface Failure {
  error: StoreError;
  /** True where the identical call may be sent again. */
  retry: boolean;
}

/** The first word of an error reply decides. Everything else that Redis replies is a defect of the script. */
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

/** The message without the prefix of its kind, to be part of another. */
export function reasonOf(error: StoreError): string {
  return error.message.replace(/^store [a-z_]+: /, "");
}

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("NOSCRIPT");
}

function judge(error: Error, message: string): { kind: StoreErrorKind; retry: boolean } {
  const reply = REPLIES[message.split(" ", 1)[0] as string];
  if (reply !== undefined) return reply;
  // Redis 7.0 words a missing permission inside a script like this.
  if (message.includes("The user executing the script")) return { kind: "denied", retry: false };
  if (message.includes("max number of clients reached")) return { kind: "unavailable", retry: true };
  if (error.name === "ReplyError") return { kind: "script", retry: false };
  return { kind: "unavailable", retry: true };
}

/** ioredis wraps: "Too many Cluster redirections. Last error: ReplyError: TRYAGAIN …", and `lastNodeError`. */
function rootMessage(error: Error): string {
  const inner = "lastNodeError" in error && error.lastNodeError instanceof Error ? error.lastNodeError.message : "";
  return (inner || error.message).replace(/^.*Last error: (?:[A-Za-z]*Error: )*/s, "");
}

/** ioredis hangs the command on its errors; the arguments of AUTH are a password, those of EVAL a whole script. */
function withoutArguments(thrown: unknown): Error {
  if (!(thrown instanceof Error)) return new Error(String(thrown));
  for (const error of [thrown, (thrown as { lastNodeError?: unknown }).lastNodeError]) {
    const command = (error as { command?: { args?: unknown } } | undefined)?.command;
    if (command !== undefined) delete command.args;
  }
  return thrown;
}
