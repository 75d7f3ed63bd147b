/** The sync message of a data plane and its reply, as JSON and as plain text. */
import * as z from "zod";
import { MICRO } from "../../../core/bucket.js";
import { byName, lineOf, SYNC_APP, SYNC_REPLY, SYNC_REPLY_APP } from "../../../engine/plane-text.js";
import { count, identifier } from "../../operations/contract/fields.js";
import { badField } from "../../operations/endpoint.js";
import { readCounters, syncCounters } from "./sync-counters.js";
import { malformedLine, numberOf, words } from "./text.js";

/** The last word of a line in plain text. */
const FINAL = "final";
/** As many as one store call accepts. */
const MOST_APPS = 500;

const appMessage = z.object({
  app: identifier(),
  granted: count(),
  spent: count(),
  returned: count().default(0),
  need: count().optional().describe("Tokens to grant in full or not at all. Required without leave."),
  want: count().optional().describe("Tokens to grant as far as the share of this node allows. Required without leave."),
  final: z
    .boolean()
    .default(false)
    .describe(
      "Of a limit's value: the node holds nothing of it and starts again with counters at zero. May be repeated.",
    ),
});

/** Unknown fields are ignored: a newer data plane may send more. */
export const syncRequest = z
  .object({
    epoch: count().describe("Changes each time the data plane starts."),
    seq: z.int().min(1).describe("Number of the message within the epoch; a repeated message keeps its number."),
    node: identifier(),
    shard: count()
      .default(0)
      .describe("The shard of all apps in the message. Each shard has its own epoch and numbers."),
    leave: z.boolean().default(false).describe("The data plane stops and returns all tokens."),
    apps: z.array(appMessage).max(MOST_APPS).default([]),
    numbers: syncCounters.optional(),
  })
  .superRefine(({ leave, apps }, { addIssue }) => {
    const seen = new Set<string>();
    const wrong = (i: number, name: string, message: string) =>
      addIssue({ code: "custom", path: ["apps", i, name], message });
    for (const [i, { app, need, want }] of apps.entries()) {
      if (seen.has(app)) wrong(i, "app", "occurs twice");
      if (need === undefined && !leave) wrong(i, "need", "is missing");
      if (want === undefined && !leave) wrong(i, "want", "is missing");
      seen.add(app);
    }
  });

export const syncReply = z.strictObject({
  code: z.string(),
  live_nodes: count(),
  emergency: z.boolean(),
  emergency_left_ms: z.number(),
  degradation: z.int().min(0).max(3),
  config_version: z.string(),
  known: z.boolean().describe("False: the store has no counters of this node. It reports everything that it holds."),
  recalled: z
    .array(z.string())
    .describe('Apps whose unused tokens are to be returned; "*": all apps, "*3": those of shard 3.'),
  apps: z.array(
    z.strictObject({
      app: z.string(),
      code: z.string(),
      grant: z.number().describe("Tokens granted in addition to those in the message."),
      granted: z.number().describe("Cumulative within the epoch."),
      remaining: z.number(),
      limit: z.number(),
      retry_after_ms: z.number(),
      scarce: z.boolean().describe("The bucket is less than half full: short leases, frequent reports."),
      rate: z.number().optional().describe("Tokens per second that the bucket gains, reduced in an emergency."),
    }),
  ),
});

export type SyncMessage = z.output<typeof syncRequest>;
export type SyncReply = z.output<typeof syncReply>;

export const syncText = {
  /** `node epoch seq [shard] [leave]`, then SYNC_APP and `final` per app, then lines with counters. */
  parse([head, ...rest]: string[]): unknown {
    const at = rest.findIndex((line) => line.startsWith("#"));
    const lines = at === -1 ? rest : rest.slice(0, at);
    const [node, epoch, seq, ...options] = words(head);
    const shard = /^[0-9]+$/.test(options[0] ?? "") ? options.shift() : "0";
    const [leave, ...more] = options;
    if (more.length > 0) throw malformedLine(1, "node epoch seq [shard] [leave]");
    if (leave !== undefined && leave !== "leave") throw badField("leave", 'must be "leave" or absent');
    return {
      node,
      epoch: numberOf(epoch),
      seq: numberOf(seq),
      shard: numberOf(shard),
      leave: leave !== undefined,
      apps: lines.slice(0, MOST_APPS + 1).map((line, i) => {
        const given = words(line);
        const final = given[SYNC_APP.length] === FINAL;
        if (given.length !== SYNC_APP.length + (final ? 1 : 0)) {
          throw malformedLine(i + 2, `${SYNC_APP.join(" ")} [${FINAL}]`);
        }
        const { app, ...numbers } = byName(SYNC_APP, given);
        return {
          app,
          ...Object.fromEntries(Object.entries(numbers).map(([name, word]) => [name, numberOf(word)])),
          final,
        };
      }),
      numbers: at === -1 ? undefined : readCounters(rest.slice(at), at + 2),
    };
  },

  /** One line for the node, one with the recalled apps if there are any, then one line per app. */
  format(reply: SyncReply): string[] {
    const { recalled, apps } = reply;
    const lines = apps.map((one) => lineOf(SYNC_REPLY_APP, { ...one, rate: Math.round((one.rate ?? 0) * MICRO) }));
    return [lineOf(SYNC_REPLY, reply), ...(recalled.length > 0 ? [`! ${recalled.join(" ")}`] : []), ...lines];
  },
};
