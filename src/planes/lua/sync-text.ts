/** The sync message and its reply as lines of text: see docs/API.md. */
import { MICRO } from "../../core/bucket.js";
import { ALL_APPS } from "../../core/keys.js";
import { splitText, wholeNumber, wholeText } from "../../core/platform.js";
import type { Account } from "../../engine/account.js";
import type { NodeState } from "../../engine/node.js";
import type { PlannedSync, SyncReply } from "../../engine/plan.js";
import { byName, lineOf, SYNC_APP, SYNC_REPLY, SYNC_REPLY_APP } from "../../engine/plane-text.js";
import { type NodeReply, recallTokens } from "../../engine/reply.js";
import { luaString, luaTable } from "./library.js";

interface Sender {
  name: string;
  node: { epoch: number; seq: number; shard: number };
}

/** `node epoch seq [shard] [leave]`, SYNC_APP and `final` for each account, and lines with counters. */
export function messageText({ name, node }: Sender, planned: PlannedSync[], counters: string, leave = false): string {
  const shard = node.shard === 0 ? "" : ` ${wholeText(node.shard)}`;
  const lines = [`${name} ${wholeText(node.epoch)} ${wholeText(node.seq)}${shard}${leave ? " leave" : ""}`];
  for (const { account, message } of planned) {
    const { granted, spent, returned } = message;
    const need = Math.ceil(message.need);
    const want = Math.ceil(message.want);
    const line = lineOf(SYNC_APP, { app: account.limits.id, granted, spent, returned, need, want });
    lines.push(message === account.finalReport ? `${line} final` : line);
  }
  return `${luaTable.concat(lines, "\n")}\n${counters}`;
}

export interface SyncAnswer extends NodeReply {
  /** Apps whose unused tokens are to be returned: see `recallApps`. */
  recalled: string[];
  /** The version of the service's configuration. */
  configVersion: string;
}

/** In whole micro-tokens per second; missing in replies of older services. */
function rateOf(word: string | undefined): number | undefined {
  const rate = word === undefined ? 0 : wholeNumber(word);
  return rate > 0 ? rate / MICRO : undefined;
}

/** Adds the replies to the planned accounts. Undefined if the text is not a reply. */
export function readAnswer<A extends Account>(text: string, planned: PlannedSync<A>[]): SyncAnswer | undefined {
  const lines = splitText(text, "\n");
  const { code, live_nodes, emergency, config_version, known } = byName(SYNC_REPLY, splitText(lines[0]!, " "));
  if (code === undefined || live_nodes === undefined || config_version === undefined) return undefined;
  const replies: { [id: string]: SyncReply | undefined } = {};
  let recalled: string[] = [];
  for (let i = 1; i < lines.length; i++) {
    const words = splitText(lines[i]!, " ");
    if (words[0] === "!") {
      recalled = words;
      continue;
    }
    const one = byName(SYNC_REPLY_APP, words);
    if (one.app === undefined || one.code === undefined || one.retry_after_ms === undefined) continue;
    const granted = wholeNumber(one.granted ?? "");
    if (granted < 0) continue;
    replies[one.app] = {
      code: one.code,
      granted,
      remaining: Math.max(wholeNumber(one.remaining ?? ""), 0),
      limit: Math.max(wholeNumber(one.limit ?? ""), 0),
      retryAfterMs: Math.max(wholeNumber(one.retry_after_ms), 0),
      scarce: one.scarce === "1",
      rate: rateOf(one.rate),
    };
  }
  for (const one of planned) one.reply = replies[one.account.limits.id];
  return {
    code,
    liveNodes: wholeNumber(live_nodes),
    emergency: emergency === "1",
    configVersion: config_version,
    known: known !== "0",
    recalled,
  };
}

/**
 * Other nodes need tokens of these apps; `*` stands for all apps, `*3` for all of shard 3. Returns the nodes of these shards.
 */
export function recallApps<N extends NodeState & { accounts: Account[] }>(
  recalled: string[],
  nodes: N[],
  byId: { [id: string]: (Account & { node: N }) | undefined },
): N[] {
  const found: N[] = [];
  for (const id of recalled) {
    const account = byId[id];
    if (account !== undefined) {
      recallTokens(account.node, account);
      found.push(account.node);
    } else if (luaString.sub(id, 1, 1) === ALL_APPS) {
      const shard = wholeNumber(luaString.sub(id, 2, -1));
      for (const node of nodes) {
        if (id === ALL_APPS || node === nodes[shard]) {
          for (const one of node.accounts) recallTokens(node, one);
          found.push(node);
        }
      }
    }
  }
  return found;
}

/** The warning if the plane and the service have different configurations. */
export function versionWarning(plane: string, own: string, service: string): string {
  return `tollgate: the service has configuration ${service}, this ${plane} has ${own}: render and load it again`;
}

export function emergencyNotice(active: boolean): string {
  return active ? "tollgate: emergency started" : "tollgate: emergency ended";
}
