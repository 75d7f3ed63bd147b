/** Schemas of the operations that change something. */
import * as z from "zod";
import { count, identifier, order, reply } from "./fields.js";

export const degradationRequest = z.strictObject({
  level: z.int().min(0).max(3),
  ...order,
  duration_seconds: z.number().positive().max(86_400).default(300),
});

export const unpinRequest = z.strictObject(order);

export const degradationState = reply({
  level: count().describe("The highest level of the service and its workers."),
  pinned_level: count().nullable().describe("Null: the level follows the health of the store."),
  pinned_until: z.iso.datetime().nullable(),
  reason: z.string().describe("Why the level was pinned."),
  operator: z.string(),
  service_level: count().describe("The level that this service sends to data planes."),
  workers: z.array(
    z.strictObject({
      node_id: z.string(),
      level: count(),
      store_latency_ms: z.number().describe("Mean latency of store calls in the last two seconds; 0 without calls."),
      store_calls: count().describe("In the last two seconds."),
      store_errors: count(),
    }),
  ),
  slow_ms: z.number().describe("Level 1 from this mean latency on."),
  very_slow_ms: z.number().describe("Level 2 above this mean latency."),
});

export const degradationReply = reply({
  status: z.literal("degradation_level_set"),
  previous_level: count(),
  current_level: count(),
  reason: z.string(),
  expires_at: z.iso.datetime(),
});

export const emergencyRequest = z.strictObject({
  action: z.enum(["activate", "deactivate"]),
  ...order,
  duration_seconds: z
    .number()
    .min(0)
    .max(30 * 86_400)
    .default(600)
    .describe("0: until it is turned off."),
});

export const emergencyState = reply({
  emergency_mode: z.boolean(),
  bursts_stopped: z
    .boolean()
    .describe(
      "The first stage of an automatic emergency: no bursts and no borrowing, but all apps keep their own rates.",
    ),
  source: z.string().describe("What started it: operator, automatic, or empty."),
  reason: z.string().describe("Why; empty unless an operator started it."),
  operator: z.string().describe("Who started it; empty unless an operator did."),
  started_at: z.iso.datetime().nullable(),
  expires_at: z.iso.datetime().nullable().describe("Null: until it is turned off, or no emergency."),
  affected_apps: z.array(z.string()).describe("Apps with a reduced quota, at most 1,000."),
});

export const emergencyReply = emergencyState.omit({ source: true }).extend({
  status: z.enum(["emergency_activated", "emergency_deactivated"]),
  reason: z.string().describe("Of this request."),
  operator: z.string().describe("Of this request."),
});

const l1Level = { tokens: z.number(), held: z.number().describe("Tokens that nodes hold and L1 has paid.") };

export const clusterReply = reply({
  ...l1Level,
  capacity: z.number(),
  rate: z.number().describe("Tokens per second."),
  reserve: z.number().describe("Tokens that only the apps' own rates can take: one second of refill."),
  written_off: z.number().describe("Overdraft of apps that L1 did not pay, in tokens since L1 was last filled."),
  guaranteed: z.number().describe("The rates of all apps together."),
});

export const clusterRefillRequest = z.strictObject({ action: z.literal("refill"), ...order });

export const clusterRefillReply = reply({
  status: z.literal("refilled"),
  before: z.strictObject(l1Level),
  after: z.strictObject(l1Level),
});

export const reconcileRequest = z.strictObject({
  app_id: identifier().optional().describe("Default: all apps."),
  force: z.boolean().default(false).describe("Correct any drift."),
  ...order,
});

export const reconcileReply = reply({
  status: z.literal("reconciled"),
  app_id: z.string().describe("* for all apps."),
  apps: count(),
  corrections_made: count(),
  drift_before: z.number().describe("The largest of all apps."),
  drift_after: z.number(),
  recovered_tokens: z.number().describe("Tokens that dead nodes held."),
  details: z.strictObject({ l2_expected_tokens: z.number(), l2_actual_tokens: z.number(), correction: z.number() }),
});

export const reloadRequest = z.strictObject({
  source: z
    .enum(["all", "file", "store", "redis"])
    .default("all")
    .describe("What to read again: the file, the layer in the store (also called redis), or both."),
  force: z
    .boolean()
    .default(false)
    .describe("Apply all changes that need no restart, and apply an unchanged configuration again."),
  confirm: z
    .boolean()
    .default(false)
    .describe("Apply even if most apps, routes or limits are removed, or if the store has lost its layer."),
  ...order,
});

export const reloadReply = reply({
  status: z.enum(["reloaded", "unchanged"]),
  apps_affected: count(),
  limits_affected: count().default(0).describe("Entries of `limits` and rules of `rate_limits`."),
  config_version: z.string(),
  previous_version: z.string(),
  restart_needed: z.array(z.string()).describe("Changed options that take effect after a restart."),
});

export const layerReply = reply({
  revision: count().describe("0: there is no layer."),
  config: z.record(z.string(), z.unknown()).describe("The options that the layer sets."),
  active: z
    .strictObject({ revision: count(), config: z.record(z.string(), z.unknown()) })
    .describe(
      "The layer in force on this service: another one only if the store was emptied, or a change is on its way.",
    ),
  config_version: z.string().describe("Version of the active configuration."),
});

export const layerRequest = z.strictObject({
  config: z
    .record(z.string(), z.unknown())
    .describe("Options that override the file on all nodes. An empty object removes the layer."),
  expected_revision: count().optional().describe("The write fails with 409 if the revision is another one."),
  ...order,
});

export const restoreRequest = z.strictObject({ ...order });

export const borrowRequest = z.strictObject({
  app_id: identifier(),
  amount: z.int().min(1).max(1_000_000_000),
  ...order,
});

const balances = { app_id: z.string(), code: z.string(), debt: z.number(), remaining: z.number() };

export const borrowReply = reply({
  status: z.enum(["borrowed", "refused"]),
  ...balances,
  borrowed: z.number(),
  borrowable: z.number(),
  explanation: z.string().describe("The result in one sentence."),
});

export const repayReply = reply({
  status: z.enum(["repaid", "refused"]),
  ...balances,
  repaid: z.number(),
});

export type DegradationState = z.output<typeof degradationState>;
export type DegradationReply = z.output<typeof degradationReply>;
export type EmergencyStateReply = z.output<typeof emergencyState>;
export type EmergencyReply = z.output<typeof emergencyReply>;
export type ClusterReply = z.output<typeof clusterReply>;
export type ClusterRefillReply = z.output<typeof clusterRefillReply>;
export type ReconcileReply = z.output<typeof reconcileReply>;
export type ReloadReply = z.output<typeof reloadReply>;
export type LayerReply = z.output<typeof layerReply>;
export type BorrowReply = z.output<typeof borrowReply>;
export type RepayReply = z.output<typeof repayReply>;
