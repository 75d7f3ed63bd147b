/** The sync message of a data plane and its reply, as JSON and as plain text, which Lua parses without a library. */
import type { LeaseMessage } from "../../../core/lease.js";
import { isIdentifier } from "../../../core/platform.js";
import type { PlaneReport } from "../../metrics/reports.js";
import { asList, asObject, asText, asWhole, BadField, readWhole } from "./fields.js";
import { parseCounters, readCounters } from "./sync-counters.js";

export interface SyncMessage {
  node: string;
  epoch: number;
  seq: number;
  /** The data plane stops and returns all tokens. */
  leave: boolean;
  apps: ({ app: string } & LeaseMessage)[];
  /** Counters of the data plane. */
  counters?: PlaneReport | undefined;
}

export interface SyncReply {
  code: string;
  live_nodes: number;
  emergency: boolean;
  emergency_left_ms: number;
  degradation: number;
  config_version: string;
  apps: {
    app: string;
    code: string;
    /** Tokens granted in addition to those in the message. */
    grant: number;
    /** Cumulative within the epoch. */
    granted: number;
    remaining: number;
    limit: number;
    retry_after_ms: number;
  }[];
}

/** As many as one store call accepts. */
const MOST_APPS = 500;
const IDENTIFIER = "must be 1 to 128 of A–Z a–z 0–9 . _ : -";
const fields = ["granted", "spent", "returned", "need", "want"] as const;

/** Throws BadField. Unknown fields are ignored: a newer data plane may send more. */
export function parseSync(format: "json" | "text", body: string): SyncMessage {
  const message = format === "json" ? parseJson(body) : parseText(body);
  if (!isIdentifier(message.node)) throw new BadField("node", IDENTIFIER);
  if (message.seq < 1) throw new BadField("seq", "must be a whole number from 1");
  const seen = new Set<string>();
  asList(message.apps, MOST_APPS, "apps");
  message.apps.forEach(({ app }, i) => {
    if (!isIdentifier(app)) throw new BadField(`apps[${i}].app`, IDENTIFIER);
    if (seen.has(app)) throw new BadField(`apps[${i}].app`, "occurs twice");
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
  return {
    node: asText(message.node, "node"),
    epoch: asWhole(message.epoch, "epoch"),
    seq: asWhole(message.seq, "seq"),
    leave,
    apps: asList(message.apps ?? [], MOST_APPS, "apps").map((item, i) => {
      const app = asObject(item, `apps[${i}]`);
      const values = fields.map((name) => {
        const isOptional = name === "returned" || (leave && (name === "need" || name === "want"));
        return app[name] === undefined && isOptional ? 0 : asWhole(app[name], `apps[${i}].${name}`);
      });
      return { app: asText(app.app, `apps[${i}].app`), ...leaseMessage(values) };
    }),
    counters: message.numbers === undefined ? undefined : parseCounters(message.numbers),
  };
}

/** `node epoch seq [leave]`, then `app granted spent returned need want` per app, then lines with counters. */
function parseText(body: string): SyncMessage {
  const [head = "", ...rest] = body.replace(/\r?\n$/, "").split(/\r?\n/);
  const at = rest.findIndex((line) => line.startsWith("#"));
  const lines = at === -1 ? rest : rest.slice(0, at);
  const [node = "", epoch, seq, leave, ...more] = head.split(" ");
  if (more.length > 0) throw new BadField("line 1", "must be: node epoch seq [leave]");
  if (leave !== undefined && leave !== "leave") throw new BadField("leave", 'must be "leave" or absent');
  return {
    node,
    epoch: readWhole(epoch, "epoch"),
    seq: readWhole(seq, "seq"),
    leave: leave !== undefined,
    apps: lines.slice(0, MOST_APPS + 1).map((line, i) => {
      const [app = "", ...words] = line.split(" ");
      if (words.length !== fields.length) {
        throw new BadField(`line ${i + 2}`, "must be: app granted spent returned need want");
      }
      return { app, ...leaseMessage(fields.map((name, word) => readWhole(words[word], `apps[${i}].${name}`))) };
    }),
    counters: at === -1 ? undefined : readCounters(rest.slice(at), at + 2),
  };
}

/** The reply as text: one line for the node, then one line per app. */
export function syncText(reply: SyncReply): string {
  const { code, live_nodes, emergency, emergency_left_ms, degradation, config_version, apps } = reply;
  const head = [code, live_nodes, emergency ? 1 : 0, emergency_left_ms, degradation, config_version];
  const lines = apps.map(({ app, code: own, grant, granted, remaining, limit, retry_after_ms }) =>
    [app, own, grant, granted, remaining, limit, retry_after_ms].join(" "),
  );
  return `${[head.join(" "), ...lines].join("\n")}\n`;
}

function leaseMessage([granted = 0, spent = 0, returned = 0, need = 0, want = 0]: number[]): LeaseMessage {
  return { granted, spent, returned, need, want };
}
