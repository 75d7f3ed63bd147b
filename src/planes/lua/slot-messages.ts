/** Slot calls in the text form of the service's connection API, as docs/API.md describes it. */
import { splitText, storedNumber } from "../../core/platform.js";
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
  const head = [proxy, connection, app, route, reclaim ? "1" : "0", reclaim ? UNKNOWN_INCARNATION : incarnation];
  if (client !== "") head.push(client);
  return `${luaTable.concat(head, " ")}\n${luaTable.concat(pods, "\n")}\n`;
}

/** For renewals and releases, of one route. */
export function slotListText(
  { proxy, route }: { proxy: string; route: string },
  slots: { connection: string; pod: string; app: string; client?: string | undefined }[],
): string {
  const lines = [`${proxy} ${route}`];
  for (const { connection, pod, app, client = "" } of slots) {
    lines.push(client === "" ? `${connection} ${pod} ${app}` : `${connection} ${pod} ${app} - ${client}`);
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
  const [allowed, , code, pod, retryAfter, leaseMs, incarnation] = splitText(line, " ");
  return {
    outcome,
    allowed: allowed === "1",
    code: code ?? "",
    pod: pod ?? "",
    retryAfterSeconds: storedNumber(retryAfter ?? false, 0),
    leaseMs: storedNumber(leaseMs ?? false, 0),
    incarnation: incarnation ?? UNKNOWN_INCARNATION,
  };
}

export function readRenewed(status: number, body: string) {
  const outcome = outcomeOf(status, body);
  const lost: string[] = [];
  const lines = outcome === ANSWERED ? splitText(body, "\n") : [];
  for (let i = 1; i < lines.length; i++) if (lines[i] !== "") lost.push(lines[i]!);
  const [, , , leaseMs, incarnation] = splitText(lines[0] ?? "", " ");
  return {
    outcome,
    lost,
    leaseMs: storedNumber(leaseMs ?? false, 0),
    incarnation: incarnation ?? UNKNOWN_INCARNATION,
  };
}
