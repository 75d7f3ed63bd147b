/** A reverse proxy for HTTP/1.1 whose every request is admitted by somebody else: extract, admit, forward, settle. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Server as NetServer, type Socket } from "node:net";
import { performance } from "node:perf_hooks";
import type { Verdict } from "./admission.js";
import { answerFor, type Reason, send } from "./answers.js";
import { type Connection, createConnections, isIdle, lingerOnClose, type TickLimits } from "./connections.js";
import { Exchange, type Shared } from "./exchange.js";
import { type HealthChecks, startHealthChecks } from "./health-checks.js";
import { defaultLimits, defaultTimeouts, type ProxyOptions, type Timeouts } from "./options.js";
import { printable } from "./printable.js";
import { readHead } from "./request-head.js";
import { createRouteTable } from "./routes.js";
import { createHopTrust } from "./trusted-hops.js";
import { createUpstream, type Upstream } from "./upstream.js";

export interface ReverseProxy {
  /** Not listening yet. */
  readonly server: Server;
  /** No new connections; what runs may finish within the time, then it is cut. Resolves when all is over. */
  drain(graceMs: number): Promise<void>;
  /** At once. */
  close(): Promise<void>;
}

export function createProxy<V extends Verdict>(options: ProxyOptions<V>): ReverseProxy {
  const limits = { ...defaultLimits, ...options.limits };
  const timeouts = { ...defaultTimeouts, ...options.timeouts };
  const { log, admission } = options;
  const shared: Shared<V> = {
    admission,
    limits,
    log,
    via: `1.1 ${options.via ?? "tollgate"}`,
    lingerMs: timeouts.lingerMs,
    tick: 0,
    draining: false,
  };
  const upstreams = new Map<string, Upstream>();
  const checks: HealthChecks[] = [];
  for (const [name, settings] of Object.entries(options.upstreams)) {
    const upstream = createUpstream(name, settings, {
      connectMs: timeouts.connectMs,
      headerBytes: Math.max(limits.headerBytes, defaultLimits.headerBytes),
      log,
      now: () => performance.now(),
    });
    upstreams.set(name, upstream);
    if (settings.active !== undefined) checks.push(startHealthChecks(upstream, settings.active));
  }
  const routes = createRouteTable(options.routes, (route) => {
    const upstream = upstreams.get(route.upstream);
    if (upstream === undefined)
      throw new Error(`route ${route.path} leads to "${route.upstream}", which is no upstream`);
    return upstream;
  });
  const connections = createConnections(createHopTrust(options.trustedHops ?? []), timeouts.lingerMs);

  function onRequest(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    const connection = connections.of(request.socket);
    // What comes behind a request that ended the connection is not read as a request.
    if (connection === undefined || connection.closing || !request.socket.writable) return;
    const head = readHead(request, limits);
    if (typeof head === "string") {
      refuse(connection, request, response, head);
      return;
    }
    // Asking for HTTP/2 is an offer that can be passed over; asking for WebSocket is not.
    if (head.upgrade && !/^h2c$/i.test(request.headers.upgrade ?? "")) {
      refuse(connection, request, response, "unsupported_upgrade");
      return;
    }
    const upstream = routes.find(head.host, head.path);
    if (upstream === undefined) {
      refuse(connection, request, response, "no_route");
      return;
    }
    new Exchange(shared, connection, request, response, head, upstream, expectsContinue).start();
  }

  /** Before anything was asked of the decider. Closes, except where the request was sound. */
  function refuse(connection: Connection, request: IncomingMessage, response: ServerResponse, reason: Reason): void {
    const { status, body } = answerFor(reason);
    const sound = reason === "no_route" && request.complete;
    if (!sound) {
      connection.closing = true;
      lingerOnClose(connection.socket, timeouts.lingerMs);
    }
    log.info({ reason, client: connection.remoteAddress, path: printable(request.url ?? "") }, "request refused");
    send(response, status, body, {}, !sound || shared.draining);
  }

  const server = createServer({
    maxHeaderSize: limits.headerBytes,
    insecureHTTPParser: false,
    requireHostHeader: false,
    noDelay: true,
    keepAlive: true,
    keepAliveTimeout: timeouts.keepAliveMs,
    headersTimeout: timeouts.headersMs,
    requestTimeout: timeouts.requestMs,
    connectionsCheckingInterval: Math.min(Math.max(timeouts.headersMs / 4, 10), 1_000),
  });
  // Node would drop the headers beyond; here the request is refused.
  server.maxHeadersCount = 0;
  server.on("connection", (socket) => connections.opened(socket, shared.tick));
  server.on("request", (request, response) => onRequest(request, response, false));
  server.on("checkContinue", (request, response) => onRequest(request, response, true));
  server.on("checkExpectation", (request, response) => {
    const connection = connections.of(request.socket);
    if (connection !== undefined) refuse(connection, request, response, "unknown_expectation");
  });
  server.on("clientError", (error: Error, socket) => {
    const connection = connections.of(socket as Socket);
    const reason = connections.broken(socket as Socket, error);
    if (reason !== undefined) log.info({ reason, client: connection?.remoteAddress }, "request refused");
  });
  server.on("connect", (_request: IncomingMessage, socket) =>
    connections.refuse(socket as Socket, "unsupported_method"),
  );
  if (options.upgrade !== undefined) server.on("upgrade", options.upgrade);

  const tickMs = tickFor(timeouts);
  const tickLimits = inTicks(timeouts, tickMs);
  const sweep = setInterval(() => {
    shared.tick++;
    for (const connection of connections.all) sweepConnection(connection);
  }, tickMs);
  sweep.unref();

  function sweepConnection(connection: Connection): void {
    // Not `closeIdleConnections`, which would also cut the unsent end of an answer.
    if (shared.draining && isIdle(connection, shared.tick)) connection.socket.destroySoon();
    if (connection.running.size > 0) {
      for (const exchange of [...connection.running]) exchange.checkTime(tickLimits);
      connection.unsentBytes = 0;
      return;
    }
    // The exchange is over, but its client does not fetch the end of the answer.
    const unsent = connection.socket.writableLength;
    if (unsent === 0 || unsent !== connection.unsentBytes) connection.unsentSinceTick = shared.tick;
    connection.unsentBytes = unsent;
    if (shared.tick - connection.unsentSinceTick > tickLimits.bodyIdle) connection.socket.destroy();
  }

  let closed: Promise<void> | undefined;
  function close(): Promise<void> {
    closed ??= (async () => {
      shared.draining = true;
      for (const check of checks) check.stop();
      const stopped = stopListening(server);
      for (const { socket } of connections.all) socket.destroy();
      await stopped;
      // Nothing is left to close, but HTTP's own timers end here.
      server.close();
      clearInterval(sweep);
      await Promise.all([...upstreams.values()].map((upstream) => upstream.close()));
    })();
    return closed;
  }

  return {
    server,
    async drain(graceMs) {
      shared.draining = true;
      const stopped = stopListening(server);
      let timer: NodeJS.Timeout | undefined;
      const grace = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, graceMs);
      });
      await Promise.race([stopped, grace]);
      clearTimeout(timer);
      if (connections.all.size > 0)
        log.warn({ connections: connections.all.size }, "connections cut at the end of the drain");
      await close();
    },
    close,
  };
}

/** Resolves when the last connection has ended. Unlike HTTP's own `close`, it closes none itself. */
function stopListening(server: Server): Promise<void> {
  return new Promise((resolve) => {
    NetServer.prototype.close.call(server, () => resolve());
  });
}

/** Fine enough for the shortest timeout, and no finer. */
function tickFor({ responseMs, bodyIdleMs }: Timeouts): number {
  return Math.min(Math.max(Math.floor(Math.min(responseMs, bodyIdleMs) / 8), 10), 1_000);
}

function inTicks({ connectMs, responseMs, bodyIdleMs }: Timeouts, tickMs: number): TickLimits {
  const ticks = (ms: number) => Math.ceil(ms / tickMs);
  return { connect: ticks(connectMs), response: ticks(responseMs), bodyIdle: ticks(bodyIdleMs) };
}
