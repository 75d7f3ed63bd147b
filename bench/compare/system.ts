/** What the comparison measures: three proxies that are to share one limit, with everything that they need. */
import type { RedisServer } from "../../test/support/redis-server.js";

/** The limit of the app "app", in requests. The app "busy" has none. */
export const LIMIT = { rate: 300, burst: 300 };
/** Of each user of "app", where a system can have two limits. */
export const USER_RATE = 30;
export const NODES = 3;
/** Connections over all nodes. */
export const MOST_CONNECTIONS = 6;

export interface World {
  /** host:port of a backend that answers with one kilobyte. */
  backend: string;
  /** host:port of a backend that accepts WebSockets. */
  pod: string;
}

export interface System {
  /** Of the three nodes. The app is in X-App-Id, the user in X-User-Id. */
  urls: string[];
  /** Where the limit is never reached, for the app "busy"; by default the first node. `nodeNs` is the CPU time of this one. */
  busyUrl?: string;
  /** The same proxy as the first node, without a limit. */
  bareUrl: string;
  /** CPU time in nanoseconds of everything that handles the requests of the first node: its proxy, the service, the store. */
  nodeNs(): number;
  bareNs(): number;
  /** Undefined: the nodes share nothing. */
  redis?: RedisServer | undefined;
  stop(): Promise<void>;
}

export interface Connections {
  /** ws:// URLs of the three nodes. */
  urls: string[];
  /** SIGKILL to everything of the first node. */
  killFirst(): Promise<void>;
  stop(): Promise<void>;
}

export interface Kind {
  name: string;
  title: string;
  isOurs: boolean;
  version(): string;
  /** What the page shows: the configuration as the documentation of the system recommends it, and where that is. */
  configuration: string;
  source: string;
  /** Whether a limit per user is configured besides that of the app. */
  hasUserLimit: boolean;
  start(world: World): Promise<System>;
  /** Undefined: the system cannot limit connections over several nodes, nor on one. */
  startConnections?: (world: World) => Promise<Connections>;
}

/** Runs `start` with a function that remembers what to stop, and stops it if `start` fails. */
export async function keeping<T>(
  start: (keep: <S extends { stop(): Promise<void> }>(server: S) => S) => Promise<T>,
): Promise<T & { stop(): Promise<void> }> {
  const started: { stop(): Promise<void> }[] = [];
  const stop = async () => {
    for (const each of started.splice(0).reverse()) await each.stop();
  };
  try {
    const made = await start((server) => {
      started.push(server);
      return server;
    });
    return { ...made, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Starts one server per node, one after the other. */
export async function perNode<T>(start: (number: number) => Promise<T>): Promise<T[]> {
  const started: T[] = [];
  for (const number of numbers) started.push(await start(number));
  return started;
}

const numbers = Array.from({ length: NODES }, (_, i) => i + 1);
