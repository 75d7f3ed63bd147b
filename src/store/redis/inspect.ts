/** Queries all servers for version, eviction policy and latency. */
import { Cluster, type Redis } from "ioredis";
import { startReplyTimer } from "../../shared/reply-timer.js";
import { StoreError } from "../errors.js";
import { addressOf, type Client } from "./client.js";
import { createDeadline } from "./deadline.js";
import { classify } from "./redis-errors.js";

type ServerFacts = Awaited<ReturnType<typeof inspectServer>>;

/** Everything but the kind and the calls in flight, which the store knows. */
export async function inspectServers(client: Client, withinMs: number) {
  const servers = client instanceof Cluster ? client.nodes("all") : [client];
  const deadline = createDeadline(withinMs);
  deadline.awaitingReply = true;
  const replies = await Promise.allSettled(servers.map((server) => deadline.race(inspectServer(server))));
  deadline.end();
  const facts = replies.flatMap((reply) => (reply.status === "fulfilled" ? [reply.value] : []));
  if (facts.length === 0) {
    const failed = replies.find((reply) => reply.status === "rejected");
    throw failed ? classify(failed.reason).error : new StoreError("unavailable", "no server of the cluster is known");
  }
  const silent = servers.filter((_, index) => replies[index]?.status === "rejected").map(nameOf);
  return {
    version: facts.map(({ version }) => version).sort(compareVersions)[0] as string,
    nodes: servers.length,
    connectedNodes: facts.length,
    latencyMs: Math.max(...facts.map(({ latencyMs }) => latencyMs)),
    evictionPolicy: [...new Set(facts.map(({ evictionPolicy }) => evictionPolicy))].sort().join(", "),
    warnings: [...silent.map((name) => `Redis at ${name} does not respond.`), ...facts.flatMap(warningsAbout)],
  };
}

async function inspectServer(server: Redis) {
  const timer = startReplyTimer();
  await server.ping().catch((error: unknown) => {
    timer.end();
    throw error;
  });
  const latencyMs = timer.end();
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

function warningsAbout({ name, evictionPolicy, maxMemory }: ServerFacts): string[] {
  if (evictionPolicy === "noeviction") return [];
  if (evictionPolicy === "unknown") {
    return [`The user may not run INFO on Redis at ${name}: check that maxmemory-policy is noeviction.`];
  }
  const when = maxMemory > 0 ? `at ${maxMemory} bytes` : "as soon as maxmemory is set";
  return [
    `Redis at ${name} evicts keys (maxmemory-policy ${evictionPolicy}) ${when}. ` +
      "Eviction resets buckets and frees slots that are in use. Set maxmemory-policy to noeviction.",
  ];
}

function field(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info)?.[1];
}

/** The address of a connection; with Sentinel it is only known once connected. */
export function nameOf(server: Redis): string {
  const { remoteAddress, remotePort } = server.stream ?? {};
  return remoteAddress ? `${remoteAddress}:${remotePort}` : addressOf(server);
}

function compareVersions(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}
