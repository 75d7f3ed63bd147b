/**
 * Limits the connections of a listener, in total and per client address, so that descriptors are left for everything else. A
 * client may have no more connections than are still free. At a limit, an idle connection is closed for the new one: of the
 * same client, or of the client that has most among those with an idle one, trusted hops last. If none is idle, the new one is
 * closed.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { networkOf, plainAddress } from "./addresses.js";
import { type Clock, systemClock } from "./clock.js";
import type { Log } from "./log.js";

export const shedReasons = ["client", "total", "idle"] as const;
/** A connection was closed at the limit of its client, at the total limit, or because it was idle. */
export type ShedReason = (typeof shedReasons)[number];

export interface ConnectionLimitOptions {
  /** The name of the listener in the log. */
  name: string;
  total: number;
  /** Further descriptors that its connections use. */
  extra?(): number;
  /** Of one address, an IPv6 /64; 0: no limit. */
  perClient?(): number;
  /** Addresses of proxies, whose connections have many clients. Only the total limit applies to them. */
  isTrusted?(address: string): boolean;
  shed(reason: ShedReason): void;
  log: Pick<Log, "warn">;
  clock?: Clock;
}

/** Milliseconds of any clock since when the connection is idle; undefined: it is in use. */
type IdleSince = () => number | undefined;

/** Of sockets that have their own rule. Others count as idle: nothing was received yet. */
const idleRules = new WeakMap<Socket, IdleSince>();
/** The accepted socket of each TLS socket. */
const acceptedSockets = new WeakMap<Socket, Socket>();

export function setAccepted(tlsSocket: Socket, accepted: Socket): void {
  acceptedSockets.set(tlsSocket, accepted);
}

/** Says when a connection may be closed to make room for others. */
export function setIdleRule(socket: Socket, idleSince: IdleSince): void {
  idleRules.set(acceptedSockets.get(socket) ?? socket, idleSince);
}

/** A connection of HTTP/1.1 is in use while it has a request. */
export function markBusy({ socket }: IncomingMessage, response: ServerResponse): void {
  setIdleRule(socket, () => undefined);
  response.once("close", () => {
    const sinceMs = performance.now();
    setIdleRule(socket, () => sinceMs);
  });
}

interface Client {
  readonly key: string;
  readonly isLimited: boolean;
  /** In the order in which they were opened. */
  readonly sockets: Set<Socket>;
}

/** Connections that are compared to find one to close; of more, as many at random. */
const MOST_COMPARED = 1_024;
const LOG_INTERVAL_MS = 10_000;

/** Call it when all listeners for "connection" are set, those for TLS included. */
export function limitConnections(server: Server, options: ConnectionLimitOptions): void {
  const { name, total, extra = () => 0, perClient = () => 0, isTrusted = () => false, shed, log } = options;
  const { clock = systemClock } = options;
  const clients = new Map<string, Client>();
  /** All connections with their clients. */
  const all = new SampledMap<Socket, Client>();
  /** Since the last line of the log. */
  let refused = 0;
  let closedIdle = 0;

  function leave(client: Client, socket: Socket): void {
    if (!client.sockets.delete(socket)) return;
    all.delete(socket);
    if (client.sockets.size === 0) clients.delete(client.key);
  }

  /** Closes an idle connection of those given. False: all are in use. */
  function closeIdle(sockets: Iterable<Socket>): boolean {
    let found: { socket: Socket; client: Client; sinceMs: number } | undefined;
    for (const socket of sockets) {
      const idle = idleRules.get(socket);
      const sinceMs = idle === undefined ? 0 : idle();
      const client = all.get(socket);
      if (sinceMs === undefined || client === undefined) continue;
      const one = { socket, client, sinceMs };
      if (found === undefined || isBetter(one, found)) found = one;
    }
    if (found === undefined) return false;
    leave(found.client, found.socket);
    found.socket.destroy();
    note("idle", found.client.key);
    return true;
  }

  /** The limit that a further connection would exceed. */
  function reached(client: Client, isLimited: boolean): ShedReason | undefined {
    const count = client.sockets.size;
    const free = total - all.size - extra();
    if (isLimited && count > 0 && (count >= free || (perClient() > 0 && count >= perClient()))) return "client";
    return free <= 0 ? "total" : undefined;
  }

  /** Clients can cause these lines, so they are few. */
  function note(reason: ShedReason, client: string): void {
    shed(reason);
    if (reason === "idle") closedIdle++;
    else refused++;
    if (refused + closedIdle > 1) return;
    write(client);
    clock.after(LOG_INTERVAL_MS, () => {
      if (refused + closedIdle > 1) write(client);
      refused = 0;
      closedIdle = 0;
    });
  }

  function write(client: string): void {
    const fields = { listener: name, client, open: all.size, total, refused, closed_idle: closedIdle };
    log.warn(fields, "too many connections: closing idle or new ones");
  }

  /** Whether the connection may stay. */
  function admit(socket: Socket): boolean {
    const address = plainAddress(socket.remoteAddress ?? "");
    const isLimited = !isTrusted(address);
    const key = isLimited ? networkOf(address) : address;
    const client = clients.get(key) ?? { key, isLimited, sockets: new Set<Socket>() };
    const limit = reached(client, isLimited);
    if (limit !== undefined) {
      if (!closeIdle(limit === "client" ? client.sockets : all.sample(MOST_COMPARED))) {
        note(limit, key);
        return false;
      }
    }
    clients.set(key, client);
    client.sockets.add(socket);
    all.set(socket, client);
    socket.once("close", () => leave(client, socket));
    return true;
  }

  const accept = server.listeners("connection") as ((this: Server, socket: Socket) => void)[];
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    if (admit(socket)) for (const each of accept) each.call(server, socket);
    else socket.destroy();
  });
}

interface Idle {
  client: Client;
  sinceMs: number;
}

/** Whether to close `a` rather than `b`. */
function isBetter(a: Idle, b: Idle): boolean {
  if (a.client.isLimited !== b.client.isLimited) return a.client.isLimited;
  const more = a.client.sockets.size - b.client.sockets.size;
  return more > 0 || (more === 0 && a.sinceMs < b.sinceMs);
}

/** A map that returns random samples of its keys. */
class SampledMap<K, V> {
  private readonly entries = new Map<K, { value: V; at: number }>();
  private readonly keys: K[] = [];

  get size(): number {
    return this.keys.length;
  }

  get(key: K): V | undefined {
    return this.entries.get(key)?.value;
  }

  set(key: K, value: V): void {
    this.entries.set(key, { value, at: this.keys.push(key) - 1 });
  }

  delete(key: K): void {
    const entry = this.entries.get(key);
    if (entry === undefined) return;
    this.entries.delete(key);
    const last = this.keys.pop();
    if (last === undefined || last === key) return;
    this.keys[entry.at] = last;
    const moved = this.entries.get(last);
    if (moved !== undefined) moved.at = entry.at;
  }

  /** All keys, or that many at random, some of them possibly several times. */
  *sample(most: number): Iterable<K> {
    if (this.keys.length <= most) yield* this.keys;
    else for (let i = 0; i < most; i++) yield this.keys[Math.floor(Math.random() * this.keys.length)]!;
  }
}
