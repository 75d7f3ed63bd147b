/** The message to the service and its answer, as lines of plain text: see src/service/sync-message.ts. */
import { splitText, wholeNumber, wholeText } from "../../core/platform.js";
import type { PlannedSync, SyncReply } from "../../core/sync.js";
import { luaTable } from "./library.js";

export interface AppInMessage {
  id: string;
  planned: PlannedSync;
}

/** `node epoch seq [leave]`, then `app granted spent returned need want` for each app, then lines with numbers. */
export function messageText(
  node: string,
  epoch: number,
  seq: number,
  leave: boolean,
  apps: AppInMessage[],
  numbers = "",
): string {
  const lines = [`${node} ${wholeText(epoch)} ${wholeText(seq)}${leave ? " leave" : ""}`];
  for (const { id, planned } of apps) {
    const { granted, spent, returned, need, want } = planned.message;
    lines.push(
      luaTable.concat(
        [
          id,
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
  return `${luaTable.concat(lines, "\n")}\n${numbers}`;
}

export interface SyncAnswerText {
  code: string;
  liveNodes: number;
  emergency: boolean;
  /** How well the store answers, as the service sees it. */
  degradation: number;
  configVersion: string;
  /** By app. */
  apps: { [id: string]: SyncReply | undefined };
}

/** Undefined for a text that is no answer. */
export function parseAnswer(text: string): SyncAnswerText | undefined {
  const lines = splitText(text, "\n");
  const head = splitText(lines[0]!, " ");
  if (head.length < 6) return undefined;
  const answer: SyncAnswerText = {
    code: head[0]!,
    liveNodes: wholeNumber(head[1]!),
    emergency: head[2] === "1",
    degradation: wholeNumber(head[4]!),
    configVersion: head[5]!,
    apps: {},
  };
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
      if (reply.granted >= 0) answer.apps[words[0]!] = reply;
    }
  }
  return answer;
}
