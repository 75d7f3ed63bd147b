/** Descriptions of all endpoints of the service, except those for connections (see plane-api/connection-api.ts). */
import * as z from "zod";
import * as contract from "../operations/contract/contract.js";
import { type Description, describe, type Method } from "./endpoint.js";

const unknownApp = { 404: { summary: "The app is not configured." } };
const invalidConfig = { 422: { summary: "The configuration is invalid; the reply lists all problems." } };
const layerConflict = {
  409: { summary: "Another revision was written meanwhile, or an option needs a restart." },
};
/** A layer may contain many apps. */
const MOST_LAYER_BYTES = 1024 * 1024;

type Details<Body, Query> = Omit<Description<Body, Query>, "method" | "path" | "role">;

/** An endpoint below /admin/ratelimit. */
function admin<Body = undefined, Query = undefined>(method: Method, path: string, details: Details<Body, Query>) {
  return describe<Body, Query>({ method, path: `/admin/ratelimit/${path}`, role: "admin", ...details });
}

const count = () => z.int().min(0);

/** For the OpenAPI document; sync-message.ts parses the message. */
const syncRequest = z.object({
  node: z.string(),
  epoch: count().describe("Changes each time the data plane starts."),
  seq: z.int().min(1).describe("Number of the message within the epoch; a repeated message keeps its number."),
  leave: z.boolean().optional().describe("The data plane stops and returns all tokens."),
  apps: z.array(
    z.object({
      app: z.string(),
      granted: count(),
      spent: count(),
      returned: count().optional(),
      need: count().describe("Tokens to grant in full or not at all. Not needed with leave."),
      want: count().describe("Tokens to grant as far as the share of this node allows. Not needed with leave."),
    }),
  ),
  numbers: z
    .object({
      node: z
        .record(z.string(), count())
        .optional()
        .describe("Gauges of the node: level, emergency, syncs, failed_syncs, memory_free_bytes."),
      batch: z.int().min(1).optional().describe("Number of the batch; it is repeated until it is acknowledged."),
      apps: z
        .array(
          z.object({
            app: z.string().describe("* for requests without an app."),
            numbers: z
              .record(z.string(), z.array(count()))
              .describe(
                "Since the last batch. l3: hits, misses. A method: allowed, rejected, dry run, sum of costs, and requests " +
                  "that cost up to 1, 2, 5, 10, 25, 50, 100, 500, 1000, 10000, 100000 and more. A code: refusals.",
              ),
          }),
        )
        .max(200)
        .optional(),
    })
    .optional()
    .describe("Counters of the data plane, for GET /metrics."),
});

const syncReply = z.strictObject({
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

export const calls = {
  live: describe({
    method: "GET",
    path: "/health/live",
    role: "public",
    reply: contract.liveReply,
    summary: "Whether the process runs.",
  }),
  ready: describe({
    method: "GET",
    path: "/health/ready",
    role: "public",
    reply: contract.readyReply,
    summary: "Whether the service is ready: the store answers, every worker listens, the configuration is loaded.",
    others: { 503: { summary: "Not ready; see the checks.", reply: contract.readyReply } },
  }),
  deep: describe({
    method: "GET",
    path: "/health/deep",
    role: "address",
    reply: contract.deepReply,
    summary: "Health of each component, with warnings.",
    others: { 503: { summary: "A required component is unhealthy.", reply: contract.deepReply } },
  }),
  metrics: describe({
    method: "GET",
    path: "/metrics",
    role: "address",
    reply: { text: "text/plain" },
    summary: "All metrics in the Prometheus format.",
    others: { 404: { summary: "Metrics are disabled." } },
  }),
  openApi: describe({
    method: "GET",
    path: "/openapi.json",
    role: "address",
    reply: z.record(z.string(), z.unknown()),
    summary: "This document.",
  }),
  sync: describe({
    method: "POST",
    path: "/v1/sync",
    role: "plane",
    reply: syncReply,
    summary: "A data plane reports spent tokens and is granted new ones; as JSON or as plain text.",
    raw: { "application/json": syncRequest, "text/plain": z.string() },
  }),
  status: admin("GET", "status", { reply: contract.statusReply, summary: "Status of this service." }),
  degradation: admin("GET", "degradation", {
    reply: contract.degradationState,
    summary: "The degradation level from 0 to 3, and whether an operator pinned it.",
  }),
  setDegradation: admin("POST", "degradation", {
    reply: contract.degradationReply,
    summary: "Pins the level of this service and its workers for a time.",
    action: "degradation.pin",
    request: contract.degradationRequest,
  }),
  unpinDegradation: admin("DELETE", "degradation", {
    reply: contract.degradationState,
    summary: "Unpins the level, so that it follows the health of the store.",
    action: "degradation.unpin",
  }),
  emergency: admin("GET", "emergency", {
    reply: contract.emergencyState,
    summary: "Whether the cluster is in an emergency, since when and until when.",
  }),
  setEmergency: admin("POST", "emergency", {
    reply: contract.emergencyReply,
    summary: "Turns the emergency of the whole cluster on or off.",
    action: "emergency",
    request: contract.emergencyRequest,
  }),
  reconcile: admin("POST", "reconcile", {
    reply: contract.reconcileReply,
    summary: "Corrects the bucket of one app, or of all, by the counters of the nodes.",
    action: "reconcile",
    request: contract.reconcileRequest,
    others: { ...unknownApp, 409: { summary: "The nodes change too fast: try again." } },
  }),
  reload: admin("POST", "reload", {
    reply: contract.reloadReply,
    summary: "Reads the configuration again; an invalid one changes nothing.",
    action: "reload",
    request: contract.reloadRequest,
    others: {
      ...invalidConfig,
      409: { summary: "Changed options need a restart; force applies the other changes." },
    },
  }),
  layer: admin("GET", "config", {
    reply: contract.layerReply,
    summary: "The configuration layer in the store. Secrets are hidden.",
    others: { 422: { summary: "The stored layer is invalid." } },
  }),
  putLayer: admin("PUT", "config", {
    reply: contract.layerReply,
    summary: "Replaces the layer for all nodes, after the resulting configuration was validated.",
    action: "config.put",
    request: contract.layerRequest,
    mostBodyBytes: MOST_LAYER_BYTES,
    others: { ...layerConflict, ...invalidConfig },
  }),
  deleteLayer: admin("DELETE", "config", {
    reply: contract.layerReply,
    summary: "Removes the layer; defaults, file and environment remain.",
    action: "config.delete",
    others: { ...layerConflict, ...invalidConfig },
  }),
  borrow: admin("POST", "borrow", {
    reply: contract.borrowReply,
    summary: "Lends idle cluster tokens to an app, for 120 % debt. The whole amount or nothing.",
    action: "borrow",
    request: contract.borrowRequest,
    others: unknownApp,
  }),
  repay: admin("POST", "repay", {
    reply: contract.repayReply,
    summary: "Repays an app's debt from its bucket, as far as the debt and the bucket allow.",
    action: "repay",
    request: contract.borrowRequest,
    others: unknownApp,
  }),
  apps: admin("GET", "apps", {
    reply: contract.appsReply,
    summary: "The configured apps, with their balances and request counters of this service.",
    query: contract.appsQuery,
  }),
  app: admin("GET", "apps/{id}", {
    reply: contract.appReply,
    summary: "One app in detail: every layer, every lease, and why requests were refused.",
    others: unknownApp,
  }),
  connections: admin("GET", "connections", { reply: contract.connectionsReply, summary: "Connections per pod." }),
} as const;
