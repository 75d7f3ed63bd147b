/** Schemas of apps, refusals and connections, and the parts of replies that several operations fill. */
import * as z from "zod";
import type { AppLimits } from "../../../core/app-limits.js";
import type { AppReport } from "../../metrics/app-counters.js";
import { layerNames } from "../../metrics/labels.js";
import type { AppBalances } from "../../metrics/store-state.js";
import { count, counts, known, reply } from "./fields.js";

/** Requests by reason of their refusal. */
const reason = z.strictObject({
  code: z.string(),
  layer: z.enum(layerNames).describe("Where it was decided; limit: by one of `limits`."),
  limit: z
    .string()
    .nullable()
    .describe(
      "The limit of `limits` that refused; * if a data plane did not state which; null if it was none of them.",
    ),
  dry_run: z
    .boolean()
    .describe("True: the requests were admitted because of a dry run, and would be refused without it."),
  total: count(),
});

export const refusal = z.strictObject({
  timestamp: z.iso.datetime(),
  node_id: z.string(),
  code: z.string(),
  layer: z
    .enum(["L1", "L2", "L3", "emergency", "store", "identity"])
    .describe("Where refusals with this code are decided. With `limit_name`, it was that limit."),
  method: z.string(),
  cost: z.number(),
  balance: z.number().describe("Tokens on the node's lease at that time."),
  remaining: z.number(),
  limit: z.number(),
  limit_name: z
    .string()
    .optional()
    .describe(
      "The limit of `limits` that refused the request, and to which the numbers belong; missing if it was that of the app.",
    ),
  retry_after_ms: z.number(),
  source: z.enum(["local", "remote", "cached", "without_store"]),
  dry_run: z.boolean().describe("The request was admitted because of a dry run."),
  explanation: z.string().describe("The refusal in one sentence."),
});

const limits = { guaranteed: z.number(), burst: z.number(), priority: count(), dry_run: z.boolean() };
const ledger = { granted: z.number(), spent: z.number(), returned: z.number() };
const cluster = z.strictObject({ tokens: known(), capacity: z.number(), rate: z.number() });

const appSummary = z.strictObject({
  app_id: z.string(),
  ...limits,
  l2_tokens: known(),
  debt: known(),
  ...counts,
  last_refusal: refusal.nullable(),
});

export const limitsOf = ({ guaranteed, burst, priority, dryRun }: AppLimits) => ({
  ...{ guaranteed, burst, priority },
  dry_run: dryRun,
});

export const countsOf = ({
  requests,
  allowed,
  refused,
  dryRunRefused,
}: Pick<AppReport, "requests" | "allowed" | "refused" | "dryRunRefused">) => ({
  ...{ requests, allowed },
  rejected: refused,
  dry_run_rejected: dryRunRefused,
});

export interface AppState {
  app: AppLimits;
  /** Undefined if the store did not answer. */
  balances: AppBalances | undefined;
  total: Parameters<typeof countsOf>[0];
  lastRefusal: Refusal | undefined;
}

/** An entry of the list of apps. */
export function appSummaryOf({ app, balances, total, lastRefusal }: AppState): z.output<typeof appSummary> {
  return {
    app_id: app.id,
    ...limitsOf(app),
    l2_tokens: balances?.tokens ?? null,
    debt: balances?.debt ?? null,
    ...countsOf(total),
    last_refusal: lastRefusal ?? null,
  };
}

const descriptorLimit = z.strictObject({
  limit: z.string().describe("Its label, as in metrics."),
  rate: z.string(),
  burst: z.number(),
  dry_run: z.boolean(),
  ...counts,
});

/** Query parameters are strings. */
function wholeText(least: number, most: number) {
  const wanted = `must be a whole number from ${least} to ${most}`;
  return z
    .string(wanted)
    .regex(/^[0-9]{1,9}$/, wanted)
    .transform(Number)
    .pipe(z.int().min(least, wanted).max(most, wanted));
}

export const appsQuery = z.strictObject({
  offset: wholeText(0, 1_000_000).default(0),
  limit: wholeText(1, 500).default(100),
  search: z.string().max(128).default("").describe("Only apps whose id contains this text."),
  sort: z
    .enum(["config", "id", "requests", "rejected"])
    .default("config")
    .describe("The order: as in the configuration, by id, or most requests or refusals first."),
});

export const appsReply = reply({
  apps: z.array(appSummary),
  total: count().describe(
    "Number of all apps that match `search`; offset and limit (at most 500) in the query select a page.",
  ),
  descriptor_limits: z.array(descriptorLimit).describe("Descriptor limits of `rate_limits`, on every page."),
  cluster,
});

export const appReply = reply({
  app_id: z.string(),
  config: z.strictObject({
    ...limits,
    borrow: z.boolean(),
    on_store_failure: z.enum(["open", "local", "closed"]),
  }),
  layers: z.strictObject({
    l1: cluster,
    l2: z
      .strictObject({ tokens: z.number(), debt: z.number(), ...ledger })
      .nullable()
      .describe("Null: the store does not answer."),
    l3: z.strictObject({
      held: z
        .number()
        .nullable()
        .describe("Tokens on all leases according to the store; null: the store does not answer."),
      recalling: z.boolean().describe("Nodes are being asked to return unused tokens."),
      leases: z.array(
        z.strictObject({
          node_id: z.string(),
          alive: z.boolean(),
          held: z.number(),
          ...ledger,
          balance: z.number().nullable().describe("As reported by the node; null for nodes of other services."),
        }),
      ),
    }),
  }),
  statistics: z
    .strictObject({
      ...counts,
      l3_hit_ratio: z.number(),
      refusals: z.record(z.string(), count()).describe("Refused requests by code, without dry runs."),
      reasons: z
        .array(reason)
        .default([])
        .describe("Refused requests, then those that would be refused without a dry run, by code and limit."),
      cost_histogram: z
        .array(z.strictObject({ up_to: z.number().nullable(), requests: count() }))
        .describe(
          "Requests by estimated cost; null: above all bounds. Empty if metrics are disabled or the app shares its label.",
        ),
    })
    .describe("Of this service's gateways since they started."),
  why: z.string().describe("What currently limits the app, in plain sentences."),
  last_refusals: z.array(refusal).describe("Newest first."),
});

export const connectionsReply = reply({
  total: count(),
  rejected: count().describe("Since the store was created."),
  routes: z
    .array(
      z.strictObject({
        route: z.string(),
        connections: count(),
        limit: count().describe("`max_total`; 0: no limit."),
        max_per_app: count().describe("0: no limit."),
        max_per_client: count().describe("As configured, or its default; 0: no limit."),
        rejected: count(),
      }),
    )
    .describe("Routes with connection limits."),
  pods: z
    .array(
      z.strictObject({
        route: z.string(),
        upstream: z.string(),
        pod: z.string(),
        connections: count().describe("Of this route."),
        limit: count(),
      }),
    )
    .describe("One entry per route and pod."),
  unavailable: z
    .array(z.string())
    .describe("Routes for which the store did not answer; they are missing in the sums and lists."),
});

export type Refusal = z.output<typeof refusal>;
export type AppsReply = z.output<typeof appsReply>;
export type AppReply = z.output<typeof appReply>;
export type ConnectionsReply = z.output<typeof connectionsReply>;
