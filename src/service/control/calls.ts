/** Every call that the control listener of a service knows by itself; other rooms add theirs. */
import * as z from "zod";
import * as contract from "./contract/contract.js";
import { describe } from "./endpoint.js";

const admin = (rest: string) => `/admin/ratelimit/${rest}`;
const unknownApp = { 404: { summary: "There is no such app." } };
/** A layer may name many apps. */
const MOST_LAYER_BYTES = 1024 * 1024;

const syncCounters = {
  granted: z.int().min(0),
  spent: z.int().min(0),
  returned: z.int().min(0).optional(),
  need: z.int().min(0).describe("To be met in full, or nothing is granted. Not needed by one that leaves."),
  want: z.int().min(0).describe("As much as the share of this node allows. Not needed by one that leaves."),
};

const syncNumbers = z.object({
  node: z
    .record(z.string(), z.int().min(0))
    .optional()
    .describe("How the node is: level, emergency, syncs, failed_syncs, memory_free_bytes."),
  batch: z.int().min(1).optional().describe("Its number; a batch is repeated under it until it is answered."),
  apps: z
    .array(
      z.object({
        app: z.string().describe("* for requests that belong to no app."),
        numbers: z
          .record(z.string(), z.array(z.int().min(0)))
          .describe(
            "Since the batch before. l3: hits, misses. A method: allowed, rejected, dry run, sum of costs, and how many " +
              "cost up to 1, 2, 5, 10, 25, 50, 100, 500, 1000, 10000, 100000 and more. A code: refusals.",
          ),
      }),
    )
    .max(200)
    .optional(),
});

/** For the document; the message itself is read by sync-message.ts. */
const syncRequest = z.object({
  node: z.string(),
  epoch: z.int().min(0).describe("Another one each time the data plane starts."),
  seq: z.int().min(1).describe("Counts the messages of the epoch; a repeated message keeps its number."),
  leave: z.boolean().optional().describe("The data plane stops: all it holds goes back."),
  apps: z.array(z.object({ app: z.string(), ...syncCounters })),
  numbers: syncNumbers.optional().describe("What the data plane has counted, for GET /metrics."),
});

const syncReply = z.strictObject({
  code: z.string(),
  live_nodes: z.int().min(0),
  emergency: z.boolean(),
  emergency_left_ms: z.number(),
  degradation: z.int().min(0).max(3),
  config_version: z.string(),
  apps: z.array(
    z.strictObject({
      app: z.string(),
      code: z.string(),
      grant: z.number().describe("Tokens beyond those that the message knew of."),
      granted: z.number().describe("Cumulative in the node's epoch."),
      remaining: z.number(),
      limit: z.number(),
      retry_after_ms: z.number(),
    }),
  ),
});

export const calls = {
  live: describe({
    ...{ method: "GET", path: "/health/live", role: "public", reply: contract.liveReply },
    summary: "Whether the process is there at all.",
  }),
  ready: describe({
    ...{ method: "GET", path: "/health/ready", role: "public", reply: contract.readyReply },
    summary: "Whether it can do its work: the store answers, every worker listens, and a configuration holds.",
    others: { 503: { summary: "It cannot; the checks say why.", reply: contract.readyReply } },
  }),
  deep: describe({
    ...{ method: "GET", path: "/health/deep", role: "address", reply: contract.deepReply },
    summary: "How each part is, and what an operator should know of it.",
    others: { 503: { summary: "A part that cannot be missed is not well.", reply: contract.deepReply } },
  }),
  metrics: describe({
    ...{ method: "GET", path: "/metrics", role: "address", reply: { text: "text/plain" } },
    summary: "All metrics, as Prometheus reads them.",
    others: { 404: { summary: "Metrics are off." } },
  }),
  openApi: describe({
    ...{ method: "GET", path: "/openapi.json", role: "address", reply: z.record(z.string(), z.unknown()) },
    summary: "This document.",
  }),
  sync: describe({
    ...{ method: "POST", path: "/v1/sync", role: "plane", reply: syncReply },
    summary: "A data plane tells what it spent and gets what it needs; in JSON, or in a text that Lua reads easily.",
    raw: { "application/json": syncRequest, "text/plain": z.string() },
  }),
  status: describe({
    ...{ method: "GET", path: admin("status"), role: "admin", reply: contract.statusReply },
    summary: "This service at a glance.",
  }),
  degradation: describe({
    ...{ method: "GET", path: admin("degradation"), role: "admin", reply: contract.degradationState },
    summary: "How well the store answers, as a level from 0 to 3, and whether an operator pinned it.",
  }),
  setDegradation: describe({
    ...{ method: "POST", path: admin("degradation"), role: "admin", reply: contract.degradationReply },
    summary: "Pins the level of this service and its workers for a time.",
    ...{ action: "degradation.pin", request: contract.degradationRequest },
  }),
  unpinDegradation: describe({
    ...{ method: "DELETE", path: admin("degradation"), role: "admin", reply: contract.degradationState },
    summary: "Lets the level follow the store again.",
    action: "degradation.unpin",
  }),
  emergency: describe({
    ...{ method: "GET", path: admin("emergency"), role: "admin", reply: contract.emergencyState },
    summary: "Whether the cluster is in an emergency, since when and until when.",
  }),
  setEmergency: describe({
    ...{ method: "POST", path: admin("emergency"), role: "admin", reply: contract.emergencyReply },
    summary: "Turns the emergency of the whole cluster on or off.",
    ...{ action: "emergency", request: contract.emergencyRequest },
  }),
  reconcile: describe({
    ...{ method: "POST", path: admin("reconcile"), role: "admin", reply: contract.reconcileReply },
    summary: "Brings one app, or all, in line with what the nodes hold and have spent.",
    ...{ action: "reconcile", request: contract.reconcileRequest },
    others: { ...unknownApp, 409: { summary: "Nodes come and go too fast just now: try again." } },
  }),
  reload: describe({
    ...{ method: "POST", path: admin("reload"), role: "admin", reply: contract.reloadReply },
    summary: "Reads the configuration anew; a bad one changes nothing.",
    ...{ action: "reload", request: contract.reloadRequest },
    others: {
      409: { summary: "Options have changed that need a restart; force applies the rest." },
      422: { summary: "The configuration is wrong; all its problems are named." },
    },
  }),
  layer: describe({
    ...{ method: "GET", path: admin("config"), role: "admin", reply: contract.layerReply },
    summary: "The layer of the configuration that is kept in the store. Secrets are hidden.",
    others: { 422: { summary: "What stands there is no layer." } },
  }),
  putLayer: describe({
    ...{ method: "PUT", path: admin("config"), role: "admin", reply: contract.layerReply },
    summary: "Replaces that layer for all nodes, once the whole has been found right.",
    ...{ action: "config.put", request: contract.layerRequest, mostBodyBytes: MOST_LAYER_BYTES },
    others: {
      409: { summary: "Another one was written meanwhile, or an option needs a restart." },
      422: { summary: "The configuration is wrong; all its problems are named." },
    },
  }),
  deleteLayer: describe({
    ...{ method: "DELETE", path: admin("config"), role: "admin", reply: contract.layerReply },
    summary: "Removes that layer: defaults, file and environment remain.",
    action: "config.delete",
    others: {
      409: { summary: "Another one was written meanwhile, or an option needs a restart." },
      422: { summary: "Without it the configuration would be wrong; all problems are named." },
    },
  }),
  borrow: describe({
    ...{ method: "POST", path: admin("borrow"), role: "admin", reply: contract.borrowReply },
    summary: "Lends an app idle tokens of the cluster, against 120 % debt. All of the amount or nothing.",
    ...{ action: "borrow", request: contract.borrowRequest, others: unknownApp },
  }),
  repay: describe({
    ...{ method: "POST", path: admin("repay"), role: "admin", reply: contract.repayReply },
    summary: "Pays an app's debt out of its bucket at once: as much of the amount as is owed and there.",
    ...{ action: "repay", request: contract.borrowRequest, others: unknownApp },
  }),
  apps: describe({
    ...{ method: "GET", path: admin("apps"), role: "admin", reply: contract.appsReply },
    summary: "The configured apps, with their balances and what became of their requests here.",
    query: contract.appsQuery,
  }),
  app: describe({
    ...{ method: "GET", path: admin("apps/{id}"), role: "admin", reply: contract.appReply },
    summary: "All there is to know of one app: every layer, every lease, and why requests were refused.",
    others: unknownApp,
  }),
  connections: describe({
    ...{ method: "GET", path: admin("connections"), role: "admin", reply: contract.connectionsReply },
    summary: "Connections per pod.",
  }),
} as const;
