/** Schemas of the operations on limits of `limits`. */
import * as z from "zod";
import { count, counts, order, reply } from "./fields.js";

const LONGEST_VALUE = 2_048;

export const limitUsageQuery = z.strictObject({
  value: z.string().max(LONGEST_VALUE).optional().describe("One value; the parts of a key are separated by commas."),
  top: z.coerce.number().int().min(1).max(1_000).default(10).describe("Number of values without `value`."),
});

const valueUsage = z.strictObject({
  value: z.string(),
  used: z.number().describe("Tokens of the burst that are spent and not refilled."),
  remaining: z.number().describe("Tokens in the bucket."),
  held: z.number().describe("Tokens on leases of nodes."),
  reset_seconds: z.number().describe("Until the bucket is full."),
  spent: z.number().describe("Tokens that live nodes have spent since the bucket was last idle."),
});

const limitFields = {
  limit: z.string(),
  key: z.array(z.string()),
  rate: z.string(),
  burst: count(),
  count: z.enum(["request", "cost"]),
  dry_run: z.boolean(),
};

/** Missing from older services. */
const limitCounts = z
  .strictObject(counts)
  .nullable()
  .default(null)
  .describe(
    "Requests at this limit since the workers started: those of this service, and of data planes that report to it. A request counts as rejected at each limit that refused it.",
  );

const descriptor = z.strictObject({
  name: z.string().describe("As in metrics: rate-limit:DOMAIN/KEY=VALUE/…"),
  rate: z.string(),
  dry_run: z.boolean(),
  ...counts,
  last_refusal: z.iso.datetime().nullable(),
});

export const limitsReply = reply({
  limits: z.array(z.strictObject({ ...limitFields, decisions: limitCounts })),
  descriptors: z
    .array(descriptor)
    .describe("Limits of `rate_limits` for Envoy, with the decisions of this service since its workers started."),
});

export const limitUsageReply = reply({
  ...limitFields,
  decisions: limitCounts,
  in_use: count().describe("Values that nodes hold tokens of or have reported lately."),
  values: z.array(valueUsage).describe("The value that was asked for, or those with the most spent tokens."),
  why: z.string().describe("For one value: whether its requests are refused, and for how long."),
});

export const limitResetRequest = z.strictObject({ value: z.string().max(LONGEST_VALUE), ...order });
export const limitTopUpRequest = limitResetRequest.extend({ amount: z.int().min(1).max(1_000_000_000) });

export const limitChangeReply = reply({
  status: z.enum(["reset", "topped_up"]),
  limit: z.string(),
  value: z.string(),
  added: z.number(),
  remaining: z.number(),
  explanation: z.string().default("").describe("Why less was added than asked for; empty if all of it was."),
});

export type LimitsReply = z.output<typeof limitsReply>;
export type LimitUsageReply = z.output<typeof limitUsageReply>;
export type LimitChangeReply = z.output<typeof limitChangeReply>;
