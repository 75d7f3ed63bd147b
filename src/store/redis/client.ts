/** Creates the ioredis client for an address. Its own resending and queueing is off: the store retries calls itself. */
import type { Duplex } from "node:stream";
import type { ConnectionOptions } from "node:tls";
import { Cluster, type ClusterNode, Command, Redis, type RedisOptions } from "ioredis";
import { replyDeadline } from "../../shared/reply-timer.js";
import { createDeadline } from "./deadline.js";
import { type HostAndPort, parseRedisUrl, type RedisAddress } from "./redis-url.js";

export interface ClientOptions {
  url: string;
  /**
   * For one call, including connecting, redirections and retries. A connection on which a reply is due and nothing
   * arrives for this long is considered dead.
   */
  deadlineMs?: number;
  connectTimeoutMs?: number;
  /** Certificates and other TLS options; also enables TLS. */
  tls?: ConnectionOptions;
  sentinelUsername?: string;
  sentinelPassword?: string;
}

export type Client = Redis | Cluster;

/** Without the option that changes the types of replies. */
type PlainOptions = Omit<RedisOptions, "replyMapping">;

export const DEFAULT_DEADLINE_MS = 1_000;
const DEFAULT_CONNECT_TIMEOUT_MS = 2_000;
const SILENCE_MARGIN_MS = 20;
/** How long a closing connection may wait for the other side. */
const DISCONNECT_TIMEOUT_MS = 200;
const MAX_RECONNECT_DELAY_MS = 500;

export function createClient(options: ClientOptions): Client {
  const address = parseRedisUrl(options.url);
  if (address.kind === "redis-cluster") return createClusterClient(address, options);
  const redis = new Redis({
    ...connectionOptions(address, options),
    ...serverOptions(address, options, reconnectDelay),
    db: address.db,
    enableOfflineQueue: false,
    // With 0, calls on a lost connection fail at once; without it ioredis would drop them silently.
    maxRetriesPerRequest: 0,
    retryStrategy: reconnectDelay,
  });
  return endWhenSilent(redis);
}

/**
 * A connection for pub/sub only. It does not reconnect: the next one may use another server. In a cluster every node
 * receives all messages, so it uses any node, preferably not `avoid`.
 */
export function createListener(options: ClientOptions, client: Client, avoid?: Redis): Redis {
  const address = parseRedisUrl(options.url);
  const redis = new Redis({
    ...connectionOptions(address, options),
    ...(client instanceof Cluster ? anyNode(address, client, avoid) : serverOptions(address, options, () => null)),
    connectionName: "tollgate-listener",
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  return endWhenSilent(redis);
}

/** What `endWhenSilent` replaces in ioredis, and uses of it. A test verifies that a silent connection ends. */
interface SocketTimeout {
  options: { socketTimeout?: number };
  stream: Duplex;
  commandQueue: { length: number };
  /** ioredis starts the timeout if this is undefined. */
  socketTimeoutTimer: object | undefined;
  setSocketTimeout(): void;
}

/**
 * The socket timeout of ioredis is a plain timer: in a process that was late it would end a connection whose replies have
 * arrived and were not read yet. This one looks for them first.
 */
function endWhenSilent(redis: Redis): Redis {
  const own = redis as unknown as SocketTimeout;
  own.setSocketTimeout = () => {
    const { stream, options } = own;
    const ms = options.socketTimeout ?? 0;
    const timer = {};
    own.socketTimeoutTimer = timer;
    const stop = () => {
      cancel();
      stream.off("data", received).off("close", stop);
      if (own.socketTimeoutTimer === timer) own.socketTimeoutTimer = undefined;
    };
    const received = () => {
      stop();
      if (own.commandQueue.length > 0) own.setSocketTimeout();
    };
    const cancel = replyDeadline(ms, () => {
      stop();
      stream.destroy(new Error(`Socket timeout. Expecting data, but didn't receive any in ${ms}ms.`));
    });
    stream.once("close", stop);
    // After the handler of ioredis, which takes the commands with a reply from the queue.
    stream.once("data", received);
  };
  return redis;
}

interface ErrorReport {
  stream?: Duplex;
  silentEmit(event: string, argument?: unknown): unknown;
}

const ignore = () => {};

/**
 * ioredis listens to the first error of a socket only. A TLS socket of Node 20 that rejected the server's certificate
 * emits another one when the server answers with an alert, and an error without a listener ends the process. ioredis
 * reports errors with this method for all connections, also for those that it opens to sentinels and cluster nodes.
 */
function surviveLateErrors(reports: ErrorReport): void {
  const { silentEmit } = reports;
  reports.silentEmit = function (this: ErrorReport, event, argument) {
    if (event === "error" && this.stream?.listeners("error").includes(ignore) === false) {
      this.stream.on("error", ignore);
    }
    return silentEmit.call(this, event, argument);
  };
}

surviveLateErrors(Redis.prototype as unknown as ErrorReport);

/** False when the server has left the cluster and therefore receives no more messages. */
export function isMember(listener: Redis, client: Client): boolean {
  const known = client instanceof Cluster ? client.nodes("all").map(addressOf) : [];
  return known.length === 0 || known.includes(addressOf(listener));
}

export function primaries(client: Client): Redis[] {
  return client instanceof Cluster ? client.nodes("master") : [client];
}

/** Finds the primary of a key and the connection to it. Outside a cluster there is one, with an empty name. */
export function serverFinder(client: Client) {
  if (!(client instanceof Cluster)) return { serverOf: () => "", connectionTo: () => client };
  const slots = new Map<string, number>();
  let connections: Map<string, Redis> | undefined;
  for (const event of ["+node", "-node", "refresh"]) {
    client.on(event, () => {
      connections = undefined;
    });
  }
  function slotOf(key: string): number {
    const known = slots.get(key);
    if (known !== undefined) return known;
    if (slots.size >= MOST_KNOWN_KEYS) slots.clear();
    const slot = hashSlot(key);
    slots.set(key, slot);
    return slot;
  }
  return {
    /** The primary that probably serves the key, as `host:port`. */
    serverOf: (key: string | undefined): string => (key === undefined ? "" : (client.slots[slotOf(key)]?.[0] ?? "")),
    /** Undefined when the cluster has no such primary. */
    connectionTo(server: string): Redis | undefined {
      connections ??= new Map(client.nodes("master").map((node) => [addressOf(node), node]));
      return connections.get(server);
    },
  };
}

/** First keys of calls: one for each shard, route and lock. */
const MOST_KNOWN_KEYS = 1_000;

/** As ioredis computes it, which is wrong for some keys with an empty hash tag `{}`: then the call is redirected. */
export function hashSlot(key: string): number {
  return new Command("GET", [key]).getSlot() ?? 0;
}

/** Resolves when the connection has ended, or should have. */
export async function disconnect(client: Client): Promise<void> {
  if (client.status === "end") return;
  const deadline = createDeadline(DISCONNECT_TIMEOUT_MS + 100);
  const ended = new Promise<void>((resolve) => client.once("end", resolve));
  client.disconnect();
  await deadline.until(ended).finally(deadline.end);
}

export function reconnectDelay(attempt: number): number {
  const delay = Math.min(MAX_RECONNECT_DELAY_MS, 20 * 2 ** Math.min(attempt, 10));
  return delay * (0.5 + Math.random() / 2);
}

/** The configured `host:port` of a connection; with Sentinel the address is only known once connected. */
export function addressOf({ options: { host = "", port = 0 } }: Redis): string {
  return `${host}:${port}`;
}

function anyNode({ hosts }: RedisAddress, client: Cluster, avoid: Redis | undefined): HostAndPort {
  const known = client.nodes("all").map(({ options: { host = "", port = 0 } }) => ({ host, port }));
  const all = known.length > 0 ? known : hosts;
  const others = all.filter(({ host, port }) => avoid === undefined || `${host}:${port}` !== addressOf(avoid));
  const choice = others.length > 0 ? others : all;
  return choice[Math.floor(Math.random() * choice.length)] as HostAndPort;
}

function serverOptions(
  address: RedisAddress,
  options: ClientOptions,
  retryStrategy: (attempt: number) => number | null,
): PlainOptions {
  if (address.kind === "redis") return { ...address.hosts[0] };
  const { tls, socketTimeout = 0 } = connectionOptions(address, options);
  const { sentinelUsername, sentinelPassword } = options;
  return {
    sentinels: address.hosts,
    name: address.sentinelName,
    sentinelUsername,
    sentinelPassword,
    // A sentinel that hangs must leave time to ask the next one.
    sentinelCommandTimeout: Math.max(100, socketTimeout / 4),
    sentinelRetryStrategy: retryStrategy,
    ...(tls ? { enableTLSForSentinelMode: true, sentinelTLS: tls } : {}),
  };
}

function createClusterClient(address: RedisAddress, options: ClientOptions): Cluster {
  // ioredis keeps this array and reads it at each reconnect. The nodes it discovers are added, so that the cluster is
  // found again even when all configured nodes are gone.
  const startupNodes: ClusterNode[] = [...address.hosts];
  const cluster = new Cluster(startupNodes, {
    redisOptions: connectionOptions(address, options),
    clusterRetryStrategy: reconnectDelay,
    slotsRefreshTimeout: options.deadlineMs ?? DEFAULT_DEADLINE_MS,
    slotsRefreshInterval: 5_000,
    // The store retries lost connections and a cluster that is down, within the deadline of the call. A node that is
    // gone leaves the pool; another node then names the new primary of its slots (MOVED).
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 50,
    // Certificates contain host names, so names must not be resolved first.
    ...(address.tls ? { dnsLookup: (name, done) => done(null, name) } : {}),
  });
  cluster.on("+node", endWhenSilent);
  cluster.on("refresh", () => {
    const discovered = cluster.nodes("all").map(({ options: { host, port } }) => ({ host, port }));
    startupNodes.splice(0, startupNodes.length, ...address.hosts, ...discovered);
  });
  return cluster;
}

function connectionOptions(address: RedisAddress, options: ClientOptions): PlainOptions {
  const { deadlineMs = DEFAULT_DEADLINE_MS, connectTimeoutMs = DEFAULT_CONNECT_TIMEOUT_MS, tls } = options;
  return {
    username: address.username,
    password: address.password,
    ...(address.tls || tls ? { tls: tls ?? {} } : {}),
    connectionName: "tollgate",
    disableClientInfo: true,
    // RESP2 needs no HELLO, which restricted users and some proxies lack.
    protocol: 2,
    connectTimeout: connectTimeoutMs,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    // After the deadline of all calls that were sent with the first one: they fail because of the time, not of the connection.
    socketTimeout: deadlineMs + SILENCE_MARGIN_MS,
    maxLoadingRetryTime: 100,
    autoResendUnfulfilledCommands: false,
    // The primary became a replica: reconnect, so that Sentinel or DNS can name the new primary.
    reconnectOnError: (error) => error.message.startsWith("READONLY"),
  };
}
