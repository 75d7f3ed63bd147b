/** Makes the ioredis client for an address, with everything off that would resend or queue calls behind our back. */
import type { ConnectionOptions } from "node:tls";
import { Cluster, type ClusterNode, Redis, type RedisOptions } from "ioredis";
import type { HostAndPort, RedisAddress } from "./redis-url.js";

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
const DISCONNECT_TIMEOUT_MS = 200;
const MAX_RECONNECT_DELAY_MS = 500;

export function createClient(settings: ClientSettings): Client {
  const { address } = settings;
  if (address.kind === "redis-cluster") return createClusterClient(settings);
  return new Redis({
    ...connectionOptions(settings),
    ...whereabouts(settings, reconnectDelay),
    db: address.db,
    enableOfflineQueue: false,
    // With 0 the calls on a lost connection fail at once; without it ioredis would forget them silently.
    maxRetriesPerRequest: 0,
    retryStrategy: reconnectDelay,
  });
}

/**
 * A connection for messages alone. It is made once, and when it is lost it has ended: the next one may go elsewhere.
 * In a cluster every node hears all messages, so any will do, if possible not the one to avoid.
 */
export function createListener(settings: ClientSettings, client: Client, avoid?: Redis): Redis {
  return new Redis({
    ...connectionOptions(settings),
    ...(client instanceof Cluster ? anyNode(settings, client, avoid) : whereabouts(settings, () => null)),
    connectionName: "tollgate-listener",
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
}

/** False when the server has left the cluster that the client knows, and with it hears no more messages. */
export function isMember(listener: Redis, client: Client): boolean {
  const known = client instanceof Cluster ? client.nodes("all") : [];
  return known.length === 0 || known.some((node) => isSameHost(hostOf(node), hostOf(listener)));
}

function anyNode({ address }: ClientSettings, client: Cluster, avoid: Redis | undefined): HostAndPort {
  const known = client.nodes("all").map(hostOf);
  const all = known.length > 0 ? known : address.hosts;
  const others = all.filter((host) => avoid === undefined || !isSameHost(host, hostOf(avoid)));
  const choice = others.length > 0 ? others : all;
  return choice[Math.floor(Math.random() * choice.length)] as HostAndPort;
}

function hostOf({ options: { host = "", port = 0 } }: Redis): HostAndPort {
  return { host, port };
}

function isSameHost(one: HostAndPort, other: HostAndPort): boolean {
  return one.host === other.host && one.port === other.port;
}

function whereabouts(settings: ClientSettings, retryStrategy: (attempt: number) => number | null): PlainOptions {
  const { address } = settings;
  if (address.kind === "redis") return { ...address.hosts[0] };
  const { tls } = connectionOptions(settings);
  return {
    sentinels: address.hosts,
    ...(address.sentinelName === undefined ? {} : { name: address.sentinelName }),
    ...(settings.sentinelUsername === undefined ? {} : { sentinelUsername: settings.sentinelUsername }),
    ...(settings.sentinelPassword === undefined ? {} : { sentinelPassword: settings.sentinelPassword }),
    // A sentinel that hangs must leave time to ask the next one.
    sentinelCommandTimeout: Math.max(100, settings.silenceMs / 4),
    sentinelRetryStrategy: retryStrategy,
    ...(tls ? { enableTLSForSentinelMode: true, sentinelTLS: tls } : {}),
  };
}

/** Resolves when the connection has ended, or should have. */
export async function disconnect(client: Client): Promise<void> {
  if (client.status === "end") return;
  const ended = new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, DISCONNECT_TIMEOUT_MS + 100);
    client.once("end", () => {
      clearTimeout(timer);
      resolve();
    });
  });
  client.disconnect();
  await ended;
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

export function reconnectDelay(attempt: number): number {
  const delay = Math.min(MAX_RECONNECT_DELAY_MS, 20 * 2 ** Math.min(attempt, 10));
  return delay * (0.5 + Math.random() / 2);
}
