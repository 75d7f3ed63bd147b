/** The sync message of a data plane and its reply, as JSON and as plain text. */
import * as z from "zod";
import { count, identifier } from "../../operations/contract/fields.js";
import { badField } from "../../operations/endpoint.js";
import { readCounters, syncCounters } from "./sync-counters.js";
import { malformedLine, numberOf, words } from "./text.js";

/** As many as one store call accepts. */
const MOST_APPS = 500;

const appMessage = z.object({
  app: identifier(),
  granted: count(),
  spent: count(),
  returned: count().default(0),
  need: count().optional().describe("Tokens to grant in full or not at all. Required without leave."),
  want: count().optional().describe("Tokens to grant as far as the share of this node allows. Required without leave."),
});

/** Unknown fields are ignored: a newer data plane may send more. */
export const syncRequest = z
  .object({
    epoch: count().describe("Changes each time the data plane starts."),
    seq: z.int().min(1).describe("Number of the message within the epoch; a repeated message keeps its number."),
    node: identifier(),
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
  apps: z.array(
    z.strictObject({
      app: z.string(),
      code: z.string(),
      grant: z.number().describe("Tokens granted in addition to those in the message."),
      granted: z.number().describe("Cumulative within the epoch."),
      remaining: z.number(),
      limit: z.number(),
      retry_after_ms: z.number(),
    }),
  ),
});

export type SyncMessage = z.output<typeof syncRequest>;
export type SyncReply = z.output<typeof syncReply>;

export const syncText = {
  /** `node epoch seq [leave]`, then `app granted spent returned need want` per app, then lines with counters. */
  parse([head, ...rest]: string[]): unknown {
    const at = rest.findIndex((line) => line.startsWith("#"));
    const lines = at === -1 ? rest : rest.slice(0, at);
    const [node, epoch, seq, leave, ...more] = words(head);
    if (more.length > 0) throw malformedLine(1, "node epoch seq [leave]");
    if (leave !== undefined && leave !== "leave") throw badField("leave", 'must be "leave" or absent');
    return {
      node,
      epoch: numberOf(epoch),
      seq: numberOf(seq),
      leave: leave !== undefined,
      apps: lines.slice(0, MOST_APPS + 1).map((line, i) => {
        const [app, ...numbers] = words(line);
        if (numbers.length !== 5) throw malformedLine(i + 2, "app granted spent returned need want");
        const [granted, spent, returned, need, want] = numbers.map(numberOf);
        return { app, granted, spent, returned, need, want };
      }),
      numbers: at === -1 ? undefined : readCounters(rest.slice(at), at + 2),
    };
  },

  /** One line for the node, then one line per app. */
  format({ code, live_nodes, emergency, emergency_left_ms, degradation, config_version, apps }: SyncReply): string[] {
    const head = [code, live_nodes, emergency ? 1 : 0, emergency_left_ms, degradation, config_version];
    const lines = apps.map((one) =>
      [one.app, one.code, one.grant, one.granted, one.remaining, one.limit, one.retry_after_ms].join(" "),
    );
    return [head.join(" "), ...lines];
  },
};
