/** Every command there is, by what it is for. */
import type { Command } from "./command.js";

/** Loaded when it is called: `tollgate price` needs no Redis client, and a probe should cost little. */
export interface ListedCommand {
  name: string;
  summary: string;
  load(): Promise<Command>;
}

const runAndPrepare: ListedCommand[] = [
  {
    name: "serve",
    summary: "Run the gateway; without a file, a demo",
    load: async () => (await import("./serve.js")).serveCommand,
  },
  {
    name: "check-config",
    summary: "Whether a configuration file is right, and every mistake in it",
    load: async () => (await import("./check-config.js")).checkConfigCommand,
  },
  {
    name: "schema",
    summary: "The JSON Schema of the configuration file, for editors",
    load: async () => (await import("./schema.js")).schemaCommand,
  },
  {
    name: "render",
    summary: "Writes the configuration for another proxy: nginx or Envoy",
    load: async () => (await import("./render.js")).renderCommand,
  },
  {
    name: "import",
    summary: "The rules of envoyproxy/ratelimit as a part of a configuration",
    load: async () => (await import("./import.js")).importCommand,
  },
  {
    name: "simulate",
    summary: "What a configuration would have done to the requests of an access log",
    load: async () => (await import("./simulate.js")).simulateCommand,
  },
];

const look: ListedCommand[] = [
  {
    name: "status",
    summary: "How a service is doing; live with --watch",
    load: async () => (await import("./status.js")).statusCommand,
  },
  {
    name: "health",
    summary: "Whether a service is alive, ready and well",
    load: async () => (await import("./health.js")).healthCommand,
  },
  {
    name: "apps",
    summary: "All apps: limits, tokens left, requests, refusals",
    load: async () => (await import("./apps.js")).appsCommand,
  },
  {
    name: "why",
    summary: "Why an app's requests are refused: every layer, and the last refusals",
    load: async () => (await import("./why.js")).whyCommand,
  },
  {
    name: "connections",
    summary: "Open connections per backend pod, against their limits",
    load: async () => (await import("./connections.js")).connectionsCommand,
  },
];

const giveOrders: ListedCommand[] = [
  {
    name: "emergency",
    summary: "Turn the cluster's emergency on or off, or show it",
    load: async () => (await import("./emergency.js")).emergencyCommand,
  },
  {
    name: "degradation",
    summary: "Show, pin or release the degradation level",
    load: async () => (await import("./degradation.js")).degradationCommand,
  },
  {
    name: "reconcile",
    summary: "Put back what dead nodes held, and correct drift, now",
    load: async () => (await import("./reconcile.js")).reconcileCommand,
  },
  {
    name: "reload",
    summary: "Read the configuration anew; a bad one changes nothing",
    load: async () => (await import("./reload.js")).reloadCommand,
  },
  {
    name: "config",
    summary: "Get, put or clear the layer of the configuration in the store",
    load: async () => (await import("./layer.js")).configCommand,
  },
  {
    name: "borrow",
    summary: "Lend tokens of the cluster to an app that is out",
    load: async () => (await import("./borrow.js")).borrowCommand,
  },
  {
    name: "repay",
    summary: "Pay an app's debt from its own tokens",
    load: async () => (await import("./borrow.js")).repayCommand,
  },
];

const learn: ListedCommand[] = [
  {
    name: "price",
    summary: "What a request costs, and how that came about",
    load: async () => (await import("./price.js")).priceCommand,
  },
  {
    name: "scripts",
    summary: "The generated Redis scripts with size, flags and SHA1",
    load: async () => (await import("./scripts.js")).scriptsCommand,
  },
  {
    name: "demo",
    summary: "A greeting and the price list",
    load: async () => (await import("./demo.js")).demoCommand,
  },
];

export const commandGroups: [title: string, commands: ListedCommand[]][] = [
  ["Run and prepare", runAndPrepare],
  ["Look", look],
  ["Give orders", giveOrders],
  ["Learn", learn],
];
