/** A data plane's message and the answer to it, in JSON and in a plain text that Lua reads without a library. */

import type { LeaseMessage } from "../../../core/lease.js";
import { isIdentifier } from "../../../core/platform.js";
import type { PlaneReport } from "../../metrics/reports.js";
import { asObject, asText, asWhole, BadField, readWhole } from "./sync-fields.js";
import { parseNumbers, readNumbers } from "./sync-numbers.js";

export { BadField } from "./sync-fields.js";

export interface SyncMessage {
  node: string;
  epoch: number;
  seq: number;
  /** The data plane stops: all it holds goes back. */
  leave: boolean;
  apps: ({ app: string } & LeaseMessage)[];
  /** What the data plane has counted. */
  numbers?: PlaneReport | undefined;
}

export interface SyncAnswer {
  code: string;
  live_nodes: number;
  emergency: boolean;
  emergency_left_ms: number;
  degradation: number;
  config_version: string;
  apps: {
    app: string;
    code: string;
    /** Tokens beyond those that the message knew of. */
    grant: number;
    /** Cumulative in the node's epoch. */
    granted: number;
    remaining: number;
    limit: number;
    retry_after_ms: number;
  }[];
}

export type MessageFormat = "json" | "text";

/** As many as one call of the scripts takes. */
const MOST_APPS = 500;
const counters = ["granted", "spent", "returned", "need", "want"] as const;
/** What may be left out: a plane that never returns, and one that leaves. */
const optional = new Set<string>(["returned"]);

/** Throws BadField. Fields that are not known are passed over: a newer data plane may say more. */
export function parseSync(format: MessageFormat, body: string): SyncMessage {
  const message = format === "json" ? parseJson(body) : parseText(body);
  if (!isIdentifier(message.node)) throw new BadField("node", "must be 1 to 128 of A–Z a–z 0–9 . _ : -");
  if (message.seq < 1) throw new BadField("seq", "must be a whole number from 1");
  if (message.apps.length > MOST_APPS) throw new BadField("apps", `must be a list of at most ${MOST_APPS}`);
  const seen = new Set<string>();
  message.apps.forEach(({ app }, i) => {
    if (!isIdentifier(app)) throw new BadField(`apps[${i}].app`, "must be 1 to 128 of A–Z a–z 0–9 . _ : -");
    if (seen.has(app)) throw new BadField(`apps[${i}].app`, "is given twice");
    seen.add(app);
  });
  return message;
}

function parseJson(body: string): SyncMessage {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    throw new BadField("body", "must be JSON");
  }
  const message = asObject(value, "body");
  const leave = message.leave ?? false;
  if (typeof leave !== "boolean") throw new BadField("leave", "must be true or false");
  const apps = message.apps ?? [];
  if (!Array.isArray(apps) || apps.length > MOST_APPS) {
    throw new BadField("apps", `must be a list of at most ${MOST_APPS}`);
  }
  return {
    node: asText(message.node, "node"),
    epoch: asWhole(message.epoch, "epoch"),
    seq: asWhole(message.seq, "seq"),
    leave,
    apps: apps.map((item, i) => {
      const app = asObject(item, `apps[${i}]`);
      const numbers = counters.map((name) => {
        const missing = app[name] === undefined && (optional.has(name) || (leave && isRequest(name)));
        return missing ? 0 : asWhole(app[name], `apps[${i}].${name}`);
      });
      return { app: asText(app.app, `apps[${i}].app`), ...named(numbers) };
    }),
    numbers: message.numbers === undefined ? undefined : parseNumbers(message.numbers),
  };
}

/** `node epoch seq [leave]`, then `app granted spent returned need want` for each app, then lines with numbers. */
function parseText(body: string): SyncMessage {
  const [head = "", ...rest] = body.replace(/\r?\n$/, "").split(/\r?\n/);
  const at = rest.findIndex((line) => line.startsWith("#"));
  const lines = at === -1 ? rest : rest.slice(0, at);
  const [node = "", epoch, seq, leave, ...more] = head.split(" ");
  if (more.length > 0) throw new BadField("line 1", "must be: node epoch seq, and leave or nothing");
  if (leave !== undefined && leave !== "leave") throw new BadField("leave", 'must be the word "leave" or nothing');
  return {
    node,
    epoch: readWhole(epoch, "epoch"),
    seq: readWhole(seq, "seq"),
    leave: leave !== undefined,
    apps: lines.slice(0, MOST_APPS + 1).map((line, i) => {
      const [app = "", ...words] = line.split(" ");
      if (words.length !== counters.length) {
        throw new BadField(`line ${i + 2}`, "must be: app granted spent returned need want");
      }
      return { app, ...named(counters.map((name, word) => readWhole(words[word], `apps[${i}].${name}`))) };
    }),
    numbers: at === -1 ? undefined : readNumbers(rest.slice(at), at + 2),
  };
}

/** The answer as text: a line for all, then one for each app. */
export function syncText(answer: SyncAnswer): string {
  const { code, live_nodes, emergency, emergency_left_ms, degradation, config_version, apps } = answer;
  const head = [code, live_nodes, emergency ? 1 : 0, emergency_left_ms, degradation, config_version];
  const lines = apps.map(({ app, code: own, grant, granted, remaining, limit, retry_after_ms }) =>
    [app, own, grant, granted, remaining, limit, retry_after_ms].join(" "),
  );
  return `${[head.join(" "), ...lines].join("\n")}\n`;
}

const isRequest = (name: string) => name === "need" || name === "want";

function named([granted = 0, spent = 0, returned = 0, need = 0, want = 0]: number[]): LeaseMessage {
  return { granted, spent, returned, need, want };
}
