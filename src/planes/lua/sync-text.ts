/** The sync message and its reply as lines of text: see docs/API.md. */
import { splitText, wholeNumber, wholeText } from "../../core/platform.js";
import type { Account } from "../../engine/account.js";
import type { PlannedSync, SyncReply } from "../../engine/plan.js";
import type { NodeReply } from "../../engine/reply.js";
import { luaTable } from "./library.js";

/** `node epoch seq [leave]`, and the lines with counters that end the message. */
export interface MessageHead {
  node: string;
  epoch: number;
  seq: number;
  leave: boolean;
  counters: string;
}

/** The head, `app granted spent returned need want` for each account, and the counters. */
export function messageText({ node, epoch, seq, leave, counters }: MessageHead, planned: PlannedSync[]): string {
  const lines = [`${node} ${wholeText(epoch)} ${wholeText(seq)}${leave ? " leave" : ""}`];
  for (const { account, message } of planned) {
    const { granted, spent, returned, need, want } = message;
    lines.push(
      luaTable.concat(
        [
          account.limits.id,
          wholeText(granted),
          wholeText(spent),
          wholeText(returned),
          wholeText(Math.ceil(need)),
          wholeText(Math.ceil(want)),
        ],
        " ",
      ),
    );
  }
  return `${luaTable.concat(lines, "\n")}\n${counters}`;
}

export interface SyncAnswer extends NodeReply {
  /** The version of the service's configuration. */
  configVersion: string;
}

/** Adds the replies to the planned accounts. Undefined if the text is not a reply. */
export function readAnswer<A extends Account>(text: string, planned: PlannedSync<A>[]): SyncAnswer | undefined {
  const lines = splitText(text, "\n");
  const head = splitText(lines[0]!, " ");
  if (head.length < 6) return undefined;
  const replies: { [id: string]: SyncReply | undefined } = {};
  for (let i = 1; i < lines.length; i++) {
    const words = splitText(lines[i]!, " ");
    if (words.length >= 7) {
      const reply = {
        code: words[1]!,
        granted: wholeNumber(words[3]!),
        remaining: Math.max(wholeNumber(words[4]!), 0),
        limit: Math.max(wholeNumber(words[5]!), 0),
        retryAfterMs: Math.max(wholeNumber(words[6]!), 0),
      };
      if (reply.granted >= 0) replies[words[0]!] = reply;
    }
  }
  for (const one of planned) one.reply = replies[one.account.limits.id];
  return { code: head[0]!, liveNodes: wholeNumber(head[1]!), emergency: head[2] === "1", configVersion: head[5]! };
}

/** The warning if the plane and the service have different configurations. */
export function versionWarning(plane: string, own: string, service: string): string {
  return `tollgate: the service has configuration ${service}, this ${plane} has ${own}: render and load it again`;
}

export function emergencyNotice(active: boolean): string {
  return active ? "tollgate: emergency started" : "tollgate: emergency ended";
}
