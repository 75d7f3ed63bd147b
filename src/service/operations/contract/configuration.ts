/** Schemas of the configuration as operators see it: effective values, the audit log, and what another one would do. */
import * as z from "zod";
import { count, reply } from "./fields.js";

const difference = z.strictObject({
  path: z.string(),
  before: z.string().nullable().describe("Null: not set."),
  after: z.string().nullable(),
});

export const effectiveReply = reply({
  config_version: z.string(),
  options: z.array(
    z.strictObject({
      path: z.string(),
      value: z.string().describe("As text. Secrets are hidden."),
      source: z.enum(["default", "file", "store", "environment", "command line"]),
      variable: z.string().optional().describe("The environment variable that sets the option."),
    }),
  ),
  apps_left_out: count().describe("With more than 200 apps, their options are not listed."),
});

export const auditReply = reply({
  entries: z
    .array(
      z.strictObject({
        timestamp: z.iso.datetime(),
        action: z.string(),
        operator: z.string(),
        client: z.string().describe("The address of the caller."),
        outcome: z.enum(["done", "refused", "failed"]),
        reason: z.string().describe("As given by the operator."),
        detail: z.string().describe("Parameters, and the state before and after, as JSON. Secrets are hidden."),
        changes: z
          .array(difference)
          .default([])
          .describe("What changed: options of the configuration, at most 200, or fields of the state."),
      }),
    )
    .describe(
      "The last changes through this service since it started, newest first; and changes of the configuration file or of the layer in the store that it followed, as `config.followed` without an operator.",
    ),
});

export const whatIfRequest = z.strictObject({
  yaml: z.string().max(262_144).describe("A configuration file. It is not applied."),
});

export const whatIfReply = reply({
  problems: z.array(z.strictObject({ path: z.string(), value: z.string(), reason: z.string() })),
  changes: z.array(difference).describe("Options whose values differ, at most 1,000."),
  replay: z
    .strictObject({
      requests: count(),
      seconds: z.number().describe("The time that the recorded requests cover."),
      nodes: count().describe("Simulated nodes."),
      apps: z.array(
        z.strictObject({
          app_id: z.string(),
          requests: count(),
          refused_before: count().describe("With the current configuration."),
          refused_after: count(),
        }),
      ),
    })
    .nullable()
    .describe("Recent requests of this service's gateways, simulated with both configurations. Null: there are none."),
});

export type EffectiveReply = z.output<typeof effectiveReply>;
export type AuditReply = z.output<typeof auditReply>;
export type WhatIfReply = z.output<typeof whatIfReply>;
