/** All commands, grouped for the help. */
import type { Command } from "./command.js";

export interface ListedCommand {
  name: string;
  summary: string;
  /** Loads the command on use: `tollgate price` needs no Redis client. */
  load(): Promise<{ command: Command }>;
}

const listed = (name: string, summary: string, load: ListedCommand["load"]): ListedCommand => ({ name, summary, load });

export const commandGroups: [title: string, commands: ListedCommand[]][] = [
  [
    "Run and configure",
    [
      listed("serve", "Run the gateway; without a configuration file, a demo", () => import("./serve.js")),
      listed("check-config", "Validate a configuration file", () => import("./check-config.js")),
      listed("schema", "Print the JSON Schema of the configuration file", () => import("./schema.js")),
      listed("render", "Write the configuration for nginx or Envoy", () => import("./render.js")),
      listed("import", "Convert rules of envoyproxy/ratelimit", () => import("./import.js")),
      listed("simulate", "Replay an access log against a configuration", () => import("./simulate.js")),
    ],
  ],
  [
    "Inspect",
    [
      listed("status", "Show the state of a service; live with --watch", () => import("./status.js")),
      listed("health", "Check whether a service is live, ready and healthy", () => import("./health.js")),
      listed("apps", "List all apps: limits, tokens, requests, refusals", () => import("./apps.js")),
      listed("why", "Explain why requests of an app are refused", () => import("./why.js")),
      listed("connections", "List open connections per backend pod", () => import("./connections.js")),
    ],
  ],
  [
    "Operate",
    [
      listed("emergency", "Start, stop or show the emergency of the cluster", () => import("./emergency.js")),
      listed("degradation", "Show, pin or unpin the degradation level", () => import("./degradation.js")),
      listed("reconcile", "Recover tokens of dead nodes and correct drift", () => import("./reconcile.js")),
      listed("reload", "Reload the configuration", () => import("./reload.js")),
      listed("config", "Get, put or clear the configuration layer in the store", () => import("./layer.js")),
      listed("borrow", "Lend tokens of the cluster to an app", () => import("./borrow.js")),
      listed("repay", "Repay the debt of an app from its own tokens", () => import("./repay.js")),
    ],
  ],
  [
    "Learn",
    [
      listed("price", "Compute the cost of a request", () => import("./price.js")),
      listed(
        "scripts",
        "Show the Redis function library and its versions on the servers",
        () => import("./scripts.js"),
      ),
      listed("demo", "Print example prices", () => import("./demo.js")),
    ],
  ],
];
