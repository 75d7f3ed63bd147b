/** All commands, grouped for the help. */
import type { Command } from "./command.js";

/** Loads the command on use: `tollgate price` needs no Redis client. */
type Load = () => Promise<{ command: Command }>;

const loadCompletion: Load = async () => {
  const { completionOf } = await import("./completion.js");
  return { command: completionOf(commandGroups.flatMap(({ commands }) => commands)) };
};

const groups: Record<string, [name: string, summary: string, load: Load][]> = {
  "Run and configure": [
    ["serve", "Run the gateway; without a configuration file, a demo", () => import("./serve.js")],
    ["check-config", "Validate a configuration file", () => import("./check-config.js")],
    ["schema", "Print the JSON Schema of the configuration file", () => import("./schema.js")],
    ["render", "Write the configuration for nginx or Envoy", () => import("./render.js")],
    ["import", "Convert rules of envoyproxy/ratelimit", () => import("./import.js")],
    ["certs", "Create a CA and certificates for evaluation", () => import("./certs.js")],
    ["simulate", "Replay an access log against a configuration", () => import("./simulate.js")],
  ],
  Inspect: [
    ["status", "Show the state of a service; live with --watch", () => import("./status.js")],
    ["health", "Check whether a service is live, ready and healthy", () => import("./health.js")],
    ["apps", "List all apps: limits, tokens, requests, refusals", () => import("./apps.js")],
    ["why", "Explain why requests of an app are refused", () => import("./why.js")],
    [
      "usage",
      "List limits with requests and refusals; show the use of one",
      async () => ({ command: (await import("./limit-commands.js")).usage }),
    ],
    ["connections", "List open connections per backend pod", () => import("./connections.js")],
  ],
  Operate: [
    ["emergency", "Turn the emergency of the cluster on or off, or show it", () => import("./emergency.js")],
    ["cluster", "Show or fill L1, the bucket that all apps share", () => import("./cluster.js")],
    ["degradation", "Get the degradation level, set it for a time, or clear it", () => import("./degradation.js")],
    ["reconcile", "Recover tokens of dead nodes and correct drift", () => import("./reconcile.js")],
    ["reload", "Reload the configuration", () => import("./reload.js")],
    ["config", "Get, put or clear the configuration layer in the store", () => import("./layer.js")],
    ["borrow", "Lend tokens of the cluster to an app", async () => ({ command: (await import("./borrow.js")).borrow })],
    [
      "reset",
      "Fill the bucket of a limit for one value",
      async () => ({ command: (await import("./limit-commands.js")).reset }),
    ],
    [
      "top-up",
      "Add tokens to a limit for one value",
      async () => ({ command: (await import("./limit-commands.js")).topUp }),
    ],
    ["repay", "Repay the debt of an app", async () => ({ command: (await import("./borrow.js")).repay })],
  ],
  Learn: [
    ["price", "Compute the cost of a request", () => import("./price.js")],
    ["scripts", "Show the Redis function library and its versions on the servers", () => import("./scripts.js")],
    ["demo", "Print example prices, send traffic, or run a backend for trials", () => import("./demo.js")],
    ["completion", "Print the completion script for bash and zsh", loadCompletion],
  ],
};

export const commandGroups = Object.entries(groups).map(([title, commands]) => ({
  title,
  commands: commands.map(([name, summary, load]) => ({ name, summary, load })),
}));
