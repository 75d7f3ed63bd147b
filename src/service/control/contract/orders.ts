/** What operators can order, and what they are answered. */
import * as z from "zod";
import { appId, count, operator, reason, timestamp } from "./fields.js";

export const degradationRequest = z.strictObject({
  level: z.int().min(0).max(3),
  reason: reason(),
  operator: operator(),
  duration_seconds: z.number().positive().max(86_400).default(300),
});

export const degradationState = z.strictObject({
  level: count().describe("The highest of all that this service knows of."),
  pinned_level: count().nullable().describe("Null: the level follows how well the store answers."),
  pinned_until: z.iso.datetime().nullable(),
  reason: z.string().describe("Why it was pinned."),
  operator: z.string(),
  service_level: count().describe("What data planes are told that speak with this service."),
  workers: z.array(z.strictObject({ node_id: z.string(), level: count() })),
  timestamp: timestamp(),
});

export const degradationReply = z.strictObject({
  status: z.literal("degradation_level_set"),
  previous_level: count(),
  current_level: count(),
  reason: z.string(),
  expires_at: z.iso.datetime(),
  timestamp: timestamp(),
});

export const emergencyRequest = z.strictObject({
  action: z.enum(["activate", "deactivate"]),
  reason: reason(),
  operator: operator(),
  duration_seconds: z
    .number()
    .min(0)
    .max(30 * 86_400)
    .default(600)
    .describe("0: until it is turned off."),
});

export const emergencyState = z.strictObject({
  emergency_mode: z.boolean(),
  source: z.string().describe("Who began it: operator, automatic, or empty."),
  started_at: z.iso.datetime().nullable(),
  expires_at: z.iso.datetime().nullable().describe("Null: when it is turned off, or there is none."),
  affected_apps: z.array(z.string()).describe("Apps that get less while it lasts; at most 1,000 are named."),
  timestamp: timestamp(),
});

export const emergencyReply = z.strictObject({
  status: z.enum(["emergency_activated", "emergency_deactivated"]),
  emergency_mode: z.boolean(),
  reason: z.string(),
  operator: z.string(),
  started_at: z.iso.datetime().nullable(),
  expires_at: z.iso.datetime().nullable(),
  affected_apps: z.array(z.string()).describe("Apps that get less while it lasts; at most 1,000 are named."),
  timestamp: timestamp(),
});

export const reconcileRequest = z.strictObject({
  app_id: appId().optional().describe("Without it, all apps."),
  force: z.boolean().default(false).describe("Correct whatever the drift."),
  operator: operator(),
  reason: reason(),
});

export const reconcileReply = z.strictObject({
  status: z.literal("reconciled"),
  app_id: z.string().describe("* where it was all apps."),
  apps: count(),
  corrections_made: count(),
  drift_before: z.number().describe("Of all apps the largest."),
  drift_after: z.number(),
  recovered_tokens: z.number().describe("What dead nodes held."),
  details: z.strictObject({ l2_expected_tokens: z.number(), l2_actual_tokens: z.number(), correction: z.number() }),
  timestamp: timestamp(),
});

export const reloadRequest = z.strictObject({
  source: z
    .enum(["all", "file", "store", "redis"])
    .default("all")
    .describe("What is read anew: the file, the layer in the store (redis is another name for it), or both."),
  force: z
    .boolean()
    .default(false)
    .describe("Apply the rest where options need a restart, and apply again what has not changed."),
  operator: operator(),
  reason: reason(),
});

export const reloadReply = z.strictObject({
  status: z.enum(["reloaded", "unchanged"]),
  timestamp: timestamp(),
  apps_affected: count(),
  config_version: z.string(),
  previous_version: z.string(),
  restart_needed: z.array(z.string()).describe("Options that changed but hold only after a restart; see force."),
});

export const layerReply = z.strictObject({
  revision: count().describe("0: there is no such layer."),
  config: z.record(z.string(), z.unknown()).describe("What the store's layer sets."),
  config_version: z.string().describe("Of the whole configuration in force."),
  timestamp: timestamp(),
});

export const layerRequest = z.strictObject({
  config: z
    .record(z.string(), z.unknown())
    .describe("Options that hold over the file's, on all nodes. Empty removes it."),
  expected_revision: count().optional().describe("Refused with 409 where another was written meanwhile."),
  operator: operator(),
  reason: reason(),
});

export const borrowRequest = z.strictObject({
  app_id: appId(),
  amount: z.int().min(1).max(1_000_000_000),
  operator: operator(),
  reason: reason(),
});

export const borrowReply = z.strictObject({
  status: z.enum(["borrowed", "refused"]),
  app_id: z.string(),
  code: z.string(),
  borrowed: z.number(),
  debt: z.number(),
  remaining: z.number(),
  borrowable: z.number(),
  explanation: z.string().describe("The same in a sentence."),
  timestamp: timestamp(),
});

export const repayReply = z.strictObject({
  status: z.enum(["repaid", "refused"]),
  app_id: z.string(),
  code: z.string(),
  repaid: z.number(),
  debt: z.number(),
  remaining: z.number(),
  timestamp: timestamp(),
});

export type DegradationOrder = z.output<typeof degradationRequest>;
export type DegradationState = z.output<typeof degradationState>;
export type DegradationReply = z.output<typeof degradationReply>;
export type EmergencyCommand = z.output<typeof emergencyRequest>;
export type EmergencyStateReply = z.output<typeof emergencyState>;
export type EmergencyReply = z.output<typeof emergencyReply>;
export type ReconcileOrder = z.output<typeof reconcileRequest>;
export type ReconcileReply = z.output<typeof reconcileReply>;
export type ReloadOrder = z.output<typeof reloadRequest>;
export type ReloadReply = z.output<typeof reloadReply>;
export type LayerReply = z.output<typeof layerReply>;
export type LayerOrder = z.output<typeof layerRequest>;
export type BorrowOrder = z.output<typeof borrowRequest>;
export type BorrowReply = z.output<typeof borrowReply>;
export type RepayReply = z.output<typeof repayReply>;
