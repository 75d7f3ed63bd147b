/** Slots as the service gives, renews and frees them, in the text form of its connection API. Every call may be repeated. */

import { splitText, storedNumber } from "../../../core/platform.js";
import { luaString, luaTable } from "../../lua/library.js";
import { ABSENT, ANSWERED, BUSY, MISFIT, type SlotAnswer } from "../../lua/slot-answer.js";
import { ngx } from "../ngx.js";
import { callService, type ServiceReply } from "../service-client.js";
import { type Ended, type Held, keeper } from "./state.js";

export interface RenewAnswer {
  outcome: string;
  memory: string;
  lost: { [connection: string]: true | undefined };
  lostCount: number;
}

function outcomeOf(reply: ServiceReply): string {
  const { status, body } = reply;
  if (status === 200) return ANSWERED;
  if (status === 400 || status === 404) {
    ngx.log(ngx.ERR, "tollgate: the service does not know what this nginx speaks of: ", body);
    return MISFIT;
  }
  const isThere =
    luaString.find(body, '"reason":"overloaded"', 1, true) !== undefined ||
    luaString.find(body, '"reason":"out_of_memory"', 1, true) !== undefined ||
    luaString.find(body, '"reason":"script"', 1, true) !== undefined;
  return isThere ? BUSY : ABSENT;
}

function firstWords(body: string): string[] {
  const line = luaString.match(body, "^[^\n]*");
  return splitText(line ?? "", " ");
}

function learnLease(word: string | undefined): void {
  const leaseMs = word === undefined ? 0 : storedNumber(word, 0);
  if (leaseMs > 0) keeper.leaseMs = leaseMs;
}

/** `reclaim`: the connection lives and lost its lease. Otherwise a store that forgot takes it not. */
export function acquireSlot(one: Held, pods: string[], reclaim: boolean, deadlineMs: number): SlotAnswer {
  const { proxy, memory } = keeper;
  const words = [proxy, one.connection, one.app, one.route, reclaim ? "1" : "0", reclaim ? "0" : memory];
  const message = `${luaTable.concat(words, " ")}\n${luaTable.concat(pods, "\n")}\n`;
  const reply = callService("/v1/connections/acquire", message, deadlineMs);
  const outcome = outcomeOf(reply);
  if (outcome !== ANSWERED) return { outcome, allowed: false, code: "", pod: "", retryAfterSeconds: 0, memory: "0" };
  const [allowed, , code, pod, retryAfter, leaseMs, told] = firstWords(reply.body);
  learnLease(leaseMs);
  return {
    outcome,
    allowed: allowed === "1",
    code: code ?? "",
    pod: pod ?? "",
    retryAfterSeconds: storedNumber(retryAfter ?? false, 0),
    memory: told ?? "0",
  };
}

/** Without any it asks whether the store is there. */
export function renewSlots(batch: Held[], deadlineMs: number): RenewAnswer {
  const lines = [keeper.proxy];
  for (const { connection, pod, app } of batch) lines.push(`${connection} ${pod} ${app}`);
  const reply = callService("/v1/connections/renew", luaTable.concat(lines, "\n"), deadlineMs);
  const outcome = outcomeOf(reply);
  const lost: { [connection: string]: true | undefined } = {};
  let lostCount = 0;
  if (outcome !== ANSWERED) return { outcome, memory: "0", lost, lostCount };
  const told = splitText(reply.body, "\n");
  for (let i = 1; i < told.length; i++) {
    if (told[i] !== "") {
      lost[told[i]!] = true;
      lostCount = lostCount + 1;
    }
  }
  const [, , , leaseMs, memory] = firstWords(reply.body);
  learnLease(leaseMs);
  return { outcome, memory: memory ?? "0", lost, lostCount };
}

/** Of one proxy. */
export function releaseSlots(proxy: string, batch: Ended[], deadlineMs: number): string {
  const lines = [proxy];
  for (const { connection, pod, app } of batch) lines.push(`${connection} ${pod} ${app}`);
  return outcomeOf(callService("/v1/connections/release", luaTable.concat(lines, "\n"), deadlineMs));
}
