/** The reverse proxy for HTTP/1.1 and HTTP/2: reads the head, finds the route, and starts an exchange or an upgrade. */
import { createServer, type IncomingMessage, METHODS, type Server } from "node:http";
import { Server as NetServer, type Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Pool } from "undici";
import type { ProxyOptions } from "../../../config/options/proxy.js";
import { forwardedAddress } from "../../../core/address.js";
import { type GatewayError, gatewayRefusal } from "../../../core/refusals.js";
import { networkOf, plainAddress } from "../../../shared/addresses.js";
import { every } from "../../../shared/background.js";
import { systemClock } from "../../../shared/clock.js";
import { printable } from "../../../shared/printable.js";
import { createTlsClients } from "../../../shared/tls/tls-clients.js";
import { createSessions } from "../http2/sessions.js";
import type { StreamRequest, StreamResponse } from "../http2/stream.js";
import { type CreateProxyOptions, type Deciders, putInForce, type Shared, tickFor } from "../options.js";
import { Tunnels } from "../upgrade/tunnels.js";
import { Upgrade } from "../upgrade/upgrade.js";
import { judgeUpgrade, requestClass } from "../upgrade/upgrade-request.js";
import { createHealthChecks } from "../upstream/health-checks.js";
import { type Connection, closeSlowly, createConnections, isIdle } from "./client-connections.js";
import type { ClientRequest, ClientResponse } from "./client-messages.js";
import { Concurrency } from "./concurrency.js";
import { Exchange } from "./exchange.js";
import { readHead } from "./request-head.js";
import { send } from "./responses.js";
import type { RoutedRequest } from "./running-request.js";

/** Of the text of an address. A trusted hop may forward anything. */
const LONGEST_ADDRESS = 45;
/** Those that node:http accepts: over HTTP/2 a method may be any word. */
const methods = new Set(METHODS);

export interface ReverseProxy {
  /** Not listening yet. */
  readonly server: Server;
  /**
   * Applies these options from the next request on; running exchanges keep theirs. Throws for invalid options and then
   * changes nothing.
   */
  reconfigure(options: ProxyOptions & Partial<Deciders>): void;
  /** Whether this is a proxy whose X-Forwarded-* headers are trusted. */
  isTrustedHop(address: string): boolean;
  /** Sets the targets of an upstream that are not listed in the configuration. Without targets requests get 503. */
  setTargets(upstream: string, targets: string[]): void;
  /** Of clients, upgraded ones included. */
  openConnections(): number;
  /** Connections that hold a slot. */
  upgradedConnections(): number;
  /** Accepts no new connections and closes the open ones after the grace period. Resolves when all are closed. */
  drain(graceMs: number): Promise<void>;
  /** Closes all connections immediately. */
  close(): Promise<void>;
}

/** A request of either protocol, and where its response goes. */
interface Message {
  connection: Connection;
  request: ClientRequest;
  response: ClientResponse;
}

/** After these refusals of a complete request the connection can be used again. */
const reusable: readonly GatewayError[] = ["no_route", "client_concurrency"];

export function createProxy({
  log,
  overload,
  certificates,
  tracing,
  maxUpstreams,
  ...first
}: CreateProxyOptions): ReverseProxy {
  const shared: Shared = {
    ...{ log, clockMs: 0, draining: false, tracing },
    ...{ clients: new Concurrency(), apps: new Concurrency() },
  };
  const pools = new Set<Pool>();
  const tlsClients = createTlsClients({ clock: systemClock, log, certificates });
  const context = { log, pools, tlsClients, clock: systemClock, maxUpstreams };
  let discovered: ReadonlyMap<string, string[]> = new Map();
  let options = putInForce(first, { ...context, discovered });
  const checks = createHealthChecks();
  const tunnels = new Tunnels();
  const tunnelProxy = { shared, tunnels };
  const connections = createConnections(() => options);
  const sessions = createSessions({ shared, options: () => options, serve: onStream, sweep: sweepConnection });
  const takenUpgrades = new WeakMap<IncomingMessage, RoutedRequest>();

  function onRequest(request: IncomingMessage, response: ClientResponse, expectsContinue: boolean): void {
    const connection = connections.of(request.socket);
    // Ignore requests after one that closes the connection.
    if (connection === undefined || connection.closing || !request.socket.writable) return;
    serve({ connection, request, response }, expectsContinue);
  }

  function onStream(connection: Connection, request: StreamRequest, response: StreamResponse): void {
    const { expect, bytes } = request.head;
    const message = { connection, request, response };
    if (request.method === "CONNECT") refuse(message, "unsupported_method");
    else if (!methods.has(request.method)) refuse(message, "malformed_request");
    else if (bytes > options.limits.headerBytes) refuse(message, "headers_too_large");
    else if (expect !== undefined && expect.toLowerCase() !== "100-continue") refuse(message, "unknown_expectation");
    else serve(message, expect !== undefined);
  }

  function serve(message: Message, expectsContinue: boolean): void {
    const routed = route(message.connection, message.request);
    if (typeof routed === "string") refuse(message, routed);
    else if (isShed(routed)) refuse(message, "overloaded");
    // It was not taken as an upgrade.
    else if (routed.upgrade !== undefined) refuse(message, "unsupported_upgrade");
    else if (!mayRun(routed)) refuse(message, "client_concurrency");
    else new Exchange(routed, message.response, expectsContinue).start();
  }

  function route(connection: Connection, request: ClientRequest): RoutedRequest | GatewayError {
    const head = readHead(request, options, connection.trusted);
    if (typeof head === "string") return head;
    if (request.method === "TRACE") return "unsupported_method";
    const destination = options.routes.find(head.host, head.path);
    if (destination === undefined) return "no_route";
    const upgrade = head.upgrade ? judgeUpgrade(request, head, destination.connections) : undefined;
    if (typeof upgrade === "string") return upgrade;
    const { upstream, profile, costHeader } = destination;
    return { shared, options, connection, request, head, upstream, profile, costHeader, upgrade, client: "" };
  }

  /** While the process is overloaded, no connection is upgraded: it would last. */
  function isShed({ upgrade }: RoutedRequest): boolean {
    if (overload === undefined) return false;
    return upgrade === undefined ? overload.sheds() : overload.isActive();
  }

  /** The network of the client according to a trusted hop; empty if the hop does not say. */
  function forwardedClient(forwardedFor: string): string {
    if (forwardedFor === "") return "";
    return networkOf(plainAddress(forwardedAddress(forwardedFor, options.isTrusted).slice(0, LONGEST_ADDRESS)));
  }

  /** False: the client has as many requests running as it may have. */
  function mayRun(routed: RoutedRequest): boolean {
    const { connection, head } = routed;
    const client = connection.trusted ? forwardedClient(head.forwardedFor) : connection.network;
    if (client === "") return true;
    routed.client = client;
    return shared.clients.enter(client, options.limits.requestsPerClient);
  }

  /** Whether `onUpgrade` handles the request; otherwise `onRequest` does. */
  function isTaken(request: IncomingMessage): boolean {
    const connection = connections.of(request.socket);
    // Responses to earlier requests are still to be sent.
    if (connection === undefined || connection.closing || connection.running.size > 0) return false;
    if (options.upgrades === undefined || request.headers.expect !== undefined) return false;
    const routed = route(connection, request);
    if (typeof routed === "string" || routed.upgrade === undefined || isShed(routed)) return false;
    takenUpgrades.set(request, routed);
    return true;
  }

  function onUpgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    const routed = takenUpgrades.get(request);
    if (connections.of(socket) === undefined || routed === undefined || !socket.writable) socket.destroy();
    else new Upgrade(routed, socket, tunnelProxy, connections.release).begin(head);
  }

  /** Rejects a request before admission, and closes the connection unless the request is valid. */
  function refuse({ connection, request, response }: Message, reason: GatewayError): void {
    const valid = reusable.includes(reason) && request.complete;
    if (!valid) {
      closeSlowly(connection, options.timeouts.lingerMs);
      connection.lastAnswered = true;
    }
    // Under overload, a line for each request would add to it. They are counted.
    if (reason !== "overloaded") {
      log.info({ reason, client: connection.remoteAddress, path: printable(request.url ?? "") }, "request rejected");
    }
    const { retryAfter, ...refusal } = gatewayRefusal(reason);
    const headers: Record<string, string> = retryAfter > 0 ? { "Retry-After": String(retryAfter) } : {};
    send(response, { ...refusal, headers }, !valid || shared.draining);
  }

  const server = createServer({
    IncomingMessage: requestClass(isTaken),
    insecureHTTPParser: false,
    requireHostHeader: false,
    noDelay: true,
    keepAlive: true,
    connectionsCheckingInterval: Math.min(Math.max(options.timeouts.headersMs / 4, 10), 1_000),
  });
  // Node would drop further headers; `readHead` rejects the request instead.
  server.maxHeadersCount = 0;
  server.on("connection", (socket) => connections.opened(socket, shared.clockMs));
  server.on("request", (request, response) => onRequest(request, response, false));
  server.on("checkContinue", (request, response) => onRequest(request, response, true));
  server.on("checkExpectation", (request, response) => {
    const connection = connections.of(request.socket);
    if (connection !== undefined) refuse({ connection, request, response }, "unknown_expectation");
  });
  server.on("clientError", (error: Error, socket) => {
    const connection = connections.of(socket as Socket);
    const reason = connections.failed(socket as Socket, error);
    if (reason !== undefined) log.info({ reason, client: connection?.remoteAddress }, "request rejected");
  });
  server.on("connect", (_request: IncomingMessage, socket) =>
    connections.refuse(socket as Socket, "unsupported_method"),
  );
  server.on("upgrade", (request, socket, head) => onUpgrade(request, socket as Socket, head));
  const acceptHttp1 = server.listeners("connection") as ((this: Server, socket: Socket) => void)[];
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    if ((socket as TLSSocket).alpnProtocol === "h2") sessions.accept(socket);
    else for (const accept of acceptHttp1) accept.call(server, socket);
  });

  let stopSweeps = () => {};
  function applyOptions(): void {
    const { limits, timeouts, upstreams, given } = options;
    // Applies to new connections; timeouts apply at once.
    Object.assign(server, { maxHeaderSize: limits.headerBytes });
    server.keepAliveTimeout = timeouts.keepAliveMs;
    server.headersTimeout = timeouts.headersMs;
    server.requestTimeout = timeouts.requestMs;
    tlsClients.closeUnused();
    checks.follow([...upstreams].map(([name, upstream]) => [upstream, given.upstreams[name]?.active]));
    stopSweeps();
    const tickMs = tickFor(options);
    stopSweeps = every(tickMs, () => {
      shared.clockMs += tickMs;
      for (const connection of connections.all.values()) sweepConnection(connection);
      sessions.sweep();
      for (const tunnel of tunnels) tunnel.checkTime();
    });
  }
  applyOptions();

  function reconfigure(given: ProxyOptions & Partial<Deciders>, targets = discovered): void {
    if (closed !== undefined) return;
    const before = options;
    const { admission, upgrades } = before;
    options = putInForce(
      { admission, ...(upgrades && { upgrades }), ...given },
      { ...context, discovered: targets },
      before,
    );
    discovered = targets;
    for (const upstream of before.upstreams.values()) upstream.release();
    applyOptions();
    connections.updateTrust();
    sessions.updateTrust();
    tunnels.follow(options.upstreams.values());
  }

  function sweepConnection(connection: Connection): void {
    // Not `closeIdleConnections`, which would also discard unsent bytes of a response.
    if (shared.draining && isIdle(connection, shared.clockMs)) connection.socket.destroySoon();
    if (connection.running.size > 0) {
      for (const running of connection.running) running.checkTime();
      connection.unsentBytes = 0;
      return;
    }
    // The exchange has ended, but the client does not read the rest of the response.
    const unsent = connection.socket.writableLength;
    if (unsent === 0 || unsent !== connection.unsentBytes) connection.unsentSinceMs = shared.clockMs;
    connection.unsentBytes = unsent;
    if (shared.clockMs - connection.unsentSinceMs > options.timeouts.bodyIdleMs) connection.socket.destroy();
  }

  const openConnections = () => connections.all.size + sessions.size() + tunnels.open();
  let closed: Promise<void> | undefined;
  function close(): Promise<void> {
    closed ??= (async () => {
      shared.draining = true;
      checks.stop();
      const stopped = stopListening(server);
      for (const socket of connections.all.keys()) socket.destroy();
      sessions.close();
      for (const tunnel of tunnels) tunnel.cut();
      await Promise.all([stopped, tunnels.empty()]);
      // Stops the timers of the HTTP server.
      server.close();
      stopSweeps();
      await Promise.all([...pools].map((pool) => pool.destroy()));
    })();
    return closed;
  }

  return {
    server,
    reconfigure,
    setTargets: (name, targets) => reconfigure(options.given, new Map([...discovered, [name, [...targets]]])),
    isTrustedHop: (address) => options.isTrusted(address),
    openConnections,
    upgradedConnections: () => tunnels.size,
    async drain(graceMs) {
      shared.draining = true;
      const stopped = stopListening(server);
      sessions.drain();
      for (const tunnel of tunnels) tunnel.goAway();
      let timer: NodeJS.Timeout | undefined;
      const grace = new Promise<boolean>((resolve) => {
        timer = setTimeout(() => resolve(false), graceMs);
      });
      const allEnded = Promise.all([stopped, tunnels.empty()]).then(() => true);
      // The server may report its end before the last connection does, so the number alone says nothing.
      const isDrained = await Promise.race([allEnded, grace]);
      clearTimeout(timer);
      const left = openConnections();
      if (!isDrained && left > 0) log.warn({ connections: left }, "connections closed at the end of the grace period");
      await close();
    },
    close,
  };
}

/** Resolves when the last connection has ended. Unlike `close` of the HTTP server, it closes no idle connections. */
function stopListening(server: Server): Promise<void> {
  return new Promise((resolve) => {
    NetServer.prototype.close.call(server, () => resolve());
  });
}
