/** Makes the ioredis client for an address, with everything off that would resend or queue calls behind our back. */
import type { ConnectionOptions } from "node:tls";
import { Cluster, type ClusterNode, Redis, type RedisOptions } from "ioredis";
import type { RedisAddress } from "./redis-url.js";

export interface ClientSettings {
  address: RedisAddress;
  /** A connection on which Redis owes an answer and sends nothing for so long is taken for dead. */
  silenceMs: number;
  connectTimeoutMs: number;
  tls?: ConnectionOptions;
  sentinelUsername?: string;
  sentinelPassword?: string;
}

export type Client = Redis | Cluster;

/** Without the option that changes the types of replies. */
type PlainOptions = Omit<RedisOptions, "replyMapping">;

/** How long a closing connection may wait for the other side before it is cut. */
export const DISCONNECT_TIMEOUT_MS = 200;
const MAX_RECONNECT_DELAY_MS = 500;

export function createClient(settings: ClientSettings): Client {
  const { address } = settings;
  if (address.kind === "redis-cluster") return createClusterClient(settings);
  const options: PlainOptions = {
    ...connectionOptions(settings),
    db: address.db,
    enableOfflineQueue: false,
    // With 0 the calls on a lost connection fail at once; without it ioredis would forget them silently.
    maxRetriesPerRequest: 0,
    retryStrategy: reconnectDelay,
  };
  if (address.kind === "redis") return new Redis({ ...options, ...address.hosts[0] });
  return new Redis({
    ...options,
    sentinels: address.hosts,
    name: address.sentinelName,
    sentinelUsername: settings.sentinelUsername,
    sentinelPassword: settings.sentinelPassword,
    // A sentinel that hangs must leave time to ask the next one.
    sentinelCommandTimeout: Math.max(100, settings.silenceMs / 4),
    sentinelRetryStrategy: reconnectDelay,
    ...(options.tls ? { enableTLSForSentinelMode: true, sentinelTLS: options.tls } : {}),
  });
}

function createClusterClient(settings: ClientSettings): Cluster {
  // ioredis keeps this very array and reads it at each new start, so the nodes it learns of can be added to it:
  // the cluster is found again even when every configured node has gone for good.
  const startupNodes: ClusterNode[] = [...settings.address.hosts];
  const cluster = new Cluster(startupNodes, {
    redisOptions: connectionOptions(settings),
    clusterRetryStrategy: reconnectDelay,
    slotsRefreshTimeout: settings.silenceMs,
    slotsRefreshInterval: 5_000,
    // Lost connections and a cluster that is down are retried by the store, within the deadline of the call. A node
    // that is gone leaves the pool; its slots are then asked for at any other, which names the new primary (MOVED).
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 50,
    // Certificates are made out for names, so names must not be turned into addresses first.
    ...(settings.address.tls ? { dnsLookup: (name, done) => done(null, name) } : {}),
  });
  cluster.on("refresh", () => {
    const learned = cluster.nodes("all").map(({ options: { host, port } }) => ({ host, port }));
    startupNodes.splice(0, startupNodes.length, ...settings.address.hosts, ...learned);
  });
  return cluster;
}

function connectionOptions(settings: ClientSettings): PlainOptions {
  const { address } = settings;
  return {
    username: address.username,
    password: address.password,
    ...(address.tls || settings.tls ? { tls: settings.tls ?? {} } : {}),
    connectionName: "tollgate",
    disableClientInfo: true,
    // RESP2 needs no HELLO, which restricted users and some proxies do not have.
    protocol: 2,
    connectTimeout: settings.connectTimeoutMs,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    socketTimeout: settings.silenceMs,
    maxLoadingRetryTime: 100,
    autoResendUnfulfilledCommands: false,
    // A primary that became a replica: connect anew, so that Sentinel or DNS can name the right one.
    reconnectOnError: (error) => error.message.startsWith("READONLY"),
  };
}

function reconnectDelay(attempt: number): number {
  const delay = Math.min(MAX_RECONNECT_DELAY_MS, 20 * 2 ** Math.min(attempt, 10));
  return delay * (0.5 + Math.random() / 2);
}
