/** Asks the servers what they are: version, eviction policy, who answers and how fast. */
import { performance } from "node:perf_hooks";
import { Cluster, type Redis } from "ioredis";
import { StoreError } from "../errors.js";
import type { StoreFacts, StoreKind } from "../store.js";
import type { Client } from "./client.js";
import { classify } from "./redis-errors.js";

const OLDEST_VERSION = 7;

interface ServerFacts {
  name: string;
  version: string;
  evictionPolicy: string;
  maxMemory: number;
  latencyMs: number;
}

/** The error that keeps the store from using this server, if there is one. */
export async function examine(client: Client): Promise<StoreError | undefined> {
  const server = client instanceof Cluster ? client.nodes("master")[0] : client;
  if (server === undefined) return undefined;
  try {
    return refusalOf(field(await server.info("server"), "redis_version"));
  } catch (error) {
    // A user who may not use INFO can still be served, and a lost connection is noticed by whoever uses it next.
    const { kind } = classify(error).error;
    return kind === "denied" || kind === "unavailable" ? undefined : classify(error).error;
  }
}

/** What the servers can tell: not how many calls of this process they owe an answer. */
export type ServersFacts = Omit<StoreFacts, "callsInFlight" | "mostCallsInFlight">;

export async function inspectServers(kind: StoreKind, client: Client, withinMs: number): Promise<ServersFacts> {
  const servers = client instanceof Cluster ? client.nodes("all") : [client];
  const answers = await Promise.allSettled(servers.map((server) => within(withinMs, inspectServer(server))));
  const facts = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  if (facts.length === 0) {
    const failed = answers.find((answer) => answer.status === "rejected");
    throw failed ? classify(failed.reason).error : new StoreError("unavailable", "no server of the cluster is known");
  }
  const silent = servers.filter((_, index) => answers[index]?.status === "rejected").map(nameOf);
  return {
    kind,
    version: facts.map(({ version }) => version).sort(compareVersions)[0] as string,
    nodes: servers.length,
    connectedNodes: facts.length,
    latencyMs: Math.max(...facts.map(({ latencyMs }) => latencyMs)),
    evictionPolicy: [...new Set(facts.map(({ evictionPolicy }) => evictionPolicy))].sort().join(", "),
    warnings: [...silent.map((name) => `Redis at ${name} does not answer.`), ...facts.flatMap(warningsAbout)],
  };
}

async function inspectServer(server: Redis): Promise<ServerFacts> {
  const before = performance.now();
  await server.ping();
  const latencyMs = performance.now() - before;
  const info = await server.info().catch((error: unknown) => {
    if (classify(error).error.kind === "denied") return "";
    throw error;
  });
  return {
    name: nameOf(server),
    version: field(info, "redis_version") ?? "unknown",
    evictionPolicy: field(info, "maxmemory_policy") ?? "unknown",
    maxMemory: Number(field(info, "maxmemory") ?? 0),
    latencyMs,
  };
}

function warningsAbout(server: ServerFacts): string[] {
  const { name, evictionPolicy, maxMemory } = server;
  if (evictionPolicy === "noeviction") return [];
  if (evictionPolicy === "unknown") {
    return [`Redis at ${name} does not let us see its eviction policy (INFO); it must be noeviction.`];
  }
  const when = maxMemory > 0 ? `at ${maxMemory} bytes` : "as soon as maxmemory is set";
  return [
    `Redis at ${name} evicts keys (maxmemory-policy ${evictionPolicy}) ${when}: ` +
      "that would fill buckets and free slots that are in use. Set maxmemory-policy to noeviction.",
  ];
}

function refusalOf(version: string | undefined): StoreError | undefined {
  if (version === undefined || Number.parseInt(version, 10) >= OLDEST_VERSION) return undefined;
  return new StoreError("unavailable", `Redis ${version} is too old: Tollgate needs ${OLDEST_VERSION}.0 or newer`);
}

function field(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info)?.[1];
}

function nameOf(server: Redis): string {
  const { host, port } = server.stream?.remoteAddress
    ? { host: server.stream.remoteAddress, port: server.stream.remotePort }
    : server.options;
  return `${host}:${port}`;
}

function compareVersions(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}

function within<T>(ms: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new StoreError("timeout", `no answer within ${ms} ms`)), ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
