/** A reverse proxy for HTTP/1.1 whose every request is admitted by somebody else: extract, admit, forward, settle. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Server as NetServer, type Socket } from "node:net";
import { performance } from "node:perf_hooks";
import type { Pool } from "undici";
import type { ProxyOptions } from "../../../config/options/proxy-options.js";
import { type GatewayError, gatewayRefusal } from "../../../core/refusals.js";
import { printable } from "../../../shared/printable.js";
import type { CreateProxyOptions, Deciders } from "../options.js";
import { createSettings, retire, type Settings, tickFor } from "../settings.js";
import type { Shared } from "../shared.js";
import { type Connection, createConnections, isIdle } from "../upgrade/connections.js";
import { createTunnels } from "../upgrade/tunnels.js";
import { Upgrade, type WantedUpgrade } from "../upgrade/upgrade.js";
import { judgeUpgrade, requestClass } from "../upgrade/upgrade-request.js";
import { createHealthChecks } from "../upstream/health-checks.js";
import type { Verdict } from "./admission.js";
import { send } from "./answers.js";
import { closeSlowly } from "./early-answers.js";
import { Exchange } from "./exchange.js";
import { readHead } from "./request-head.js";

export interface ReverseProxy<V extends Verdict = Verdict> {
  /** Not listening yet. */
  readonly server: Server;
  /**
   * From the next request on these settings hold, and these deciders where some are given. Whatever runs goes on with
   * what it began with. Throws for settings that make no sense; then nothing has changed.
   */
  reconfigure(settings: ProxyOptions & Partial<Deciders<V>>): void;
  /** Tells the targets of an upstream that has none of its own. An empty list: there are none just now (503). */
  setTargets(upstream: string, targets: string[]): void;
  /** Of clients, whatever they speak. */
  openConnections(): number;
  /** Those of them that were upgraded, or are about to be and hold a slot. */
  upgradedConnections(): number;
  /** No new connections; what runs may finish within the time, then it is cut. Resolves when all is over. */
  drain(graceMs: number): Promise<void>;
  /** At once. */
  close(): Promise<void>;
}

export function createProxy<V extends Verdict>(options: CreateProxyOptions<V>): ReverseProxy<V> {
  const { log } = options;
  const shared: Shared = { log, via: `1.1 ${options.via ?? "tollgate"}`, clockMs: 0, draining: false };
  const pools = new Set<Pool>();
  const discovered = new Map<string, string[]>();
  const room = { log, pools, discovered, now: () => performance.now() };
  let settings: Settings<V> = createSettings(options, room);
  const checks = createHealthChecks();
  const tunnels = createTunnels();
  const connections = createConnections(() => settings);
  const wantedUpgrades = new WeakMap<IncomingMessage, WantedUpgrade<V>>();

  function onRequest(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    const connection = connections.of(request.socket);
    // What comes behind a request that ended the connection is not read as a request.
    if (connection === undefined || connection.closing || !request.socket.writable) return;
    const head = readHead(request, settings.limits);
    if (typeof head === "string") {
      refuse(connection, request, response, head);
      return;
    }
    const destination = settings.routes.find(head.host, head.path);
    if (destination === undefined) {
      refuse(connection, request, response, "no_route");
      return;
    }
    const upgrade = head.upgrade ? judgeUpgrade(request, head, destination.connections) : undefined;
    if (upgrade !== undefined) {
      refuse(connection, request, response, typeof upgrade === "string" ? upgrade : "unsupported_upgrade");
      return;
    }
    const { upstream } = destination;
    new Exchange(shared, settings, connection, request, response, head, upstream, expectsContinue).start();
  }

  /** Asked before a request is handed over: whether it leaves HTTP here. If not, it comes to `onRequest`. */
  function isTaken(request: IncomingMessage): boolean {
    const connection = connections.of(request.socket);
    // Behind requests whose answers are still to come, nothing but HTTP can be spoken.
    if (connection === undefined || connection.closing || connection.running.size > 0) return false;
    if (settings.upgrades === undefined || request.headers.expect !== undefined) return false;
    const head = readHead(request, settings.limits);
    if (typeof head === "string" || !head.upgrade) return false;
    const { upstream, connections: rules } = settings.routes.find(head.host, head.path) ?? {};
    if (upstream === undefined || rules === undefined) return false;
    const protocols = judgeUpgrade(request, head, rules);
    if (!Array.isArray(protocols)) return false;
    wantedUpgrades.set(request, { settings, upstream, rules, head, protocols });
    return true;
  }

  function onUpgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    const connection = connections.of(socket);
    const wanted = wantedUpgrades.get(request);
    if (connection === undefined || wanted === undefined || !socket.writable) socket.destroy();
    else void new Upgrade(shared, tunnels.all, connection, request, wanted, connections.handOver).start(head);
  }

  /** Before anything was asked of the decider. Closes, except where the request was sound. */
  function refuse(
    connection: Connection,
    request: IncomingMessage,
    response: ServerResponse,
    reason: GatewayError,
  ): void {
    const { status, body } = gatewayRefusal(reason);
    const sound = reason === "no_route" && request.complete;
    if (!sound) {
      closeSlowly(connection, settings.timeouts.lingerMs);
      connection.lastAnswered = true;
    }
    log.info({ reason, client: connection.remoteAddress, path: printable(request.url ?? "") }, "request refused");
    send(response, status, body, {}, !sound || shared.draining);
  }

  const server = createServer({
    IncomingMessage: requestClass(isTaken),
    insecureHTTPParser: false,
    requireHostHeader: false,
    noDelay: true,
    keepAlive: true,
    connectionsCheckingInterval: Math.min(Math.max(settings.timeouts.headersMs / 4, 10), 1_000),
  });
  // Node would drop the headers beyond; here the request is refused.
  server.maxHeadersCount = 0;
  server.on("connection", (socket) => connections.opened(socket, shared.clockMs));
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
  server.on("upgrade", (request, socket, head) => onUpgrade(request, socket as Socket, head));

  let sweep: NodeJS.Timeout | undefined;
  function takeEffect(): void {
    const { limits, timeouts, upstreams, told } = settings;
    // Each connection is read with what held when it was opened; times are looked up when they are needed.
    Object.assign(server, { maxHeaderSize: limits.headerBytes });
    server.keepAliveTimeout = timeouts.keepAliveMs;
    server.headersTimeout = timeouts.headersMs;
    server.requestTimeout = timeouts.requestMs;
    checks.follow([...upstreams].map(([name, upstream]) => [upstream, told.upstreams[name]?.active]));
    clearInterval(sweep);
    const tickMs = tickFor(settings);
    sweep = setInterval(() => {
      shared.clockMs += tickMs;
      for (const connection of connections.all) sweepConnection(connection);
      for (const tunnel of tunnels.all) tunnel.checkTime();
    }, tickMs);
    sweep.unref();
  }
  takeEffect();

  function reconfigure(told: ProxyOptions & Partial<Deciders<V>>): void {
    if (closed !== undefined) return;
    const { admission, upgrades } = settings;
    const before = settings;
    settings = createSettings({ admission, ...(upgrades === undefined ? {} : { upgrades }), ...told }, room, before);
    retire(before);
    takeEffect();
    connections.trustAnew();
    tunnels.follow(settings.upstreams.values());
  }

  function sweepConnection(connection: Connection): void {
    // Not `closeIdleConnections`, which would also cut the unsent end of an answer.
    if (shared.draining && isIdle(connection, shared.clockMs)) connection.socket.destroySoon();
    if (connection.running.size > 0) {
      for (const running of connection.running) running.checkTime();
      connection.unsentBytes = 0;
      return;
    }
    // The exchange is over, but its client does not fetch the end of the answer.
    const unsent = connection.socket.writableLength;
    if (unsent === 0 || unsent !== connection.unsentBytes) connection.unsentSinceMs = shared.clockMs;
    connection.unsentBytes = unsent;
    if (shared.clockMs - connection.unsentSinceMs > settings.timeouts.bodyIdleMs) connection.socket.destroy();
  }

  let closed: Promise<void> | undefined;
  function close(): Promise<void> {
    closed ??= (async () => {
      shared.draining = true;
      checks.stop();
      const stopped = stopListening(server);
      for (const { socket } of connections.all) socket.destroy();
      for (const tunnel of tunnels.all) tunnel.cut();
      await Promise.all([stopped, tunnels.empty()]);
      // Nothing is left to close, but HTTP's own timers end here.
      server.close();
      clearInterval(sweep);
      await Promise.all([...pools].map((pool) => pool.destroy()));
    })();
    return closed;
  }

  return {
    server,
    reconfigure,
    setTargets(name, targets) {
      const before = discovered.get(name);
      discovered.set(name, [...targets]);
      try {
        reconfigure(settings.told);
      } catch (error) {
        if (before === undefined) discovered.delete(name);
        else discovered.set(name, before);
        throw error;
      }
    },
    openConnections: () => connections.all.size + tunnels.open(),
    upgradedConnections: () => tunnels.all.size,
    async drain(graceMs) {
      shared.draining = true;
      const stopped = stopListening(server);
      for (const tunnel of tunnels.all) tunnel.goAway();
      let timer: NodeJS.Timeout | undefined;
      const grace = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, graceMs);
      });
      await Promise.race([Promise.all([stopped, tunnels.empty()]), grace]);
      clearTimeout(timer);
      const left = connections.all.size + tunnels.open();
      if (left > 0) log.warn({ connections: left }, "connections cut at the end of the drain");
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
