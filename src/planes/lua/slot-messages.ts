/** Slot calls in the text form of the service's connection API, as docs/API.md describes it. */
import { splitText, storedNumber } from "../../core/platform.js";
import { ACQUIRE, ACQUIRE_REPLY, byName, HELD, lineOf, RENEW_REPLY } from "../../engine/plane-text.js";
import {
  ANSWERED,
  BUSY,
  FAILED,
  NOT_CONFIGURED,
  UNAVAILABLE,
  UNKNOWN_INCARNATION,
} from "../../engine/slots/contact.js";
import { luaString, luaTable } from "./library.js";

export const ACQUIRE_PATH = "/v1/connections/acquire";
export const RENEW_PATH = "/v1/connections/renew";
export const RELEASE_PATH = "/v1/connections/release";

export interface AcquireMessage {
  proxy: string;
  connection: string;
  app: string;
  /** From `clientNetwork`; absent or empty if unknown. */
  client?: string | undefined;
  route: string;
  pods: string[];
  /** The connection is open and lost its lease. */
  reclaim: boolean;
  incarnation: string;
}

export function acquireText(message: AcquireMessage): string {
  const { proxy, connection, app, client = "", route, reclaim, incarnation, pods } = message;
  const memory = reclaim ? UNKNOWN_INCARNATION : incarnation;
  const named = client === "" ? undefined : client;
  const head = lineOf(ACQUIRE, { proxy, connection, app, route, reclaim, memory, client: named });
  return `${head}\n${luaTable.concat(pods, "\n")}\n`;
}

/** For renewals and releases, of one route. */
export function slotListText(
  { proxy, route }: { proxy: string; route: string },
  slots: { connection: string; pod: string; app: string; client?: string | undefined }[],
): string {
  const lines = [`${proxy} ${route}`];
  for (const { connection, pod, app, client = "" } of slots) {
    const named = client === "" ? undefined : client;
    lines.push(lineOf(HELD, { connection, pod, app, route: named === undefined ? undefined : "-", client: named }));
  }
  return luaTable.concat(lines, "\n");
}

export function outcomeOf(status: number, body: string): string {
  if (status === 200) return ANSWERED;
  if (status === 400 || status === 404) return NOT_CONFIGURED;
  if (hasReason(body, "overloaded")) return BUSY;
  return hasReason(body, "out_of_memory") || hasReason(body, "script") ? FAILED : UNAVAILABLE;
}

/** Whether the body of an error has this reason. */
export function hasReason(body: string, reason: string): boolean {
  return luaString.find(body, `"reason":"${reason}"`, 1, true) !== undefined;
}

export interface SlotReply {
  outcome: string;
  allowed: boolean;
  code: string;
  pod: string;
  retryAfterSeconds: number;
  /** 0: unknown. */
  leaseMs: number;
  incarnation: string;
}

export function readAcquired(status: number, body: string): SlotReply {
  const outcome = outcomeOf(status, body);
  const line = outcome === ANSWERED ? (luaString.match(body, "^[^\n]*") ?? "") : "";
  const reply = byName(ACQUIRE_REPLY, splitText(line, " "));
  return {
    outcome,
    allowed: reply.allowed === "1",
    code: reply.code ?? "",
    pod: reply.pod ?? "",
    retryAfterSeconds: storedNumber(reply.retry_after ?? false, 0),
    leaseMs: storedNumber(reply.lease_ms ?? false, 0),
    incarnation: reply.memory ?? UNKNOWN_INCARNATION,
  };
}

export function readRenewed(status: number, body: string) {
  const outcome = outcomeOf(status, body);
  const lost: string[] = [];
  const lines = outcome === ANSWERED ? splitText(body, "\n") : [];
  for (let i = 1; i < lines.length; i++) if (lines[i] !== "") lost.push(lines[i]!);
  const { lease_ms, memory } = byName(RENEW_REPLY, splitText(lines[0] ?? "", " "));
  return { outcome, lost, leaseMs: storedNumber(lease_ms ?? false, 0), incarnation: memory ?? UNKNOWN_INCARNATION };
}
