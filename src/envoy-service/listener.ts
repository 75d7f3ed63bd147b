/** The port for Envoy: gRPC over plaintext HTTP/2, and plain HTTP requests over HTTP/1.1 or HTTP/2. */
import { createServer, type Server } from "node:http";
import {
  constants,
  type IncomingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerOptions,
} from "node:http2";
import { Server as NetServer, type Socket } from "node:net";
import type { EnvoyServiceOptions } from "../config/options/service.js";
import { every } from "../shared/background.js";
import type { Clock } from "../shared/clock.js";
import { setIdleRule } from "../shared/connection-limits.js";
import type { Log } from "../shared/log.js";
import { createAccessChecks, type EnvoyAccess } from "./access.js";
import { createBuffers } from "./buffers.js";
import { createExpiry } from "./expiry.js";
import { createGrpcServer, endWithStatus, type UnaryMethod } from "./grpc/server.js";
import { GrpcError, PERMISSION_DENIED, UNAUTHENTICATED } from "./grpc/status.js";
import { createHttpRoutes, type HttpRoute } from "./http-routes.js";
import { createPeers, type Peer } from "./peers.js";
import { detectProtocol } from "./protocol.js";

export interface EnvoyListenerOptions {
  methods: readonly UnaryMethod[];
  routes: readonly HttpRoute[];
  /** Read on every request. */
  access(): EnvoyAccess;
  /** Read on every request. */
  limits(): EnvoyServiceOptions["limits"];
  /** Whether to refuse a call because of overload. Default: never. */
  sheds?(): boolean;
  log: Log;
  timeouts?: Partial<ListenerTimeouts>;
  /** For peers without credentials. */
  clock?: Clock;
}

export interface ListenerTimeouts {
  /** For the first bytes of a request, the HTTP/2 preface, and the settings of an HTTP/2 peer with their acknowledgement. */
  handshakeMs: number;
  /** For a complete message or body, and for the reply to be read. */
  bodyMs: number;
  /** An HTTP/2 connection without an authorized request is closed after this time, so that strangers cannot collect them. */
  unauthorizedMs: number;
  /** The same for addresses that are not allowed. */
  outsiderMs: number;
  /** An HTTP/2 connection without traffic is tested after this time; its peer must reply within `handshakeMs`. */
  pingMs: number;
  /** An authorized HTTP/2 connection without traffic other than these tests is closed after this time. */
  idleMs: number;
}

const defaultTimeouts: ListenerTimeouts = {
  handshakeMs: 5_000,
  bodyMs: 15_000,
  unauthorizedMs: 60_000,
  outsiderMs: 5_000,
  pingMs: 30_000,
  idleMs: 3_600_000,
};
/** Between the announcement that a connection will be closed and its end. */
const GOODBYE_MS = 1_000;
/** The reply to a ping. */
const PING_BYTES = 17;
const TCP_KEEP_ALIVE_MS = 60_000;
const GRPC_TYPE = /^application\/grpc(\+proto)?($|;)/;
const STREAM_WINDOW_BYTES = 1_048_576;
const CONNECTION_WINDOW_BYTES = 4 * STREAM_WINDOW_BYTES;
const MAX_HEADER_BYTES = 16_384;
/** For messages and bodies of health checks: callers need no token. */
const MAX_PUBLIC_BYTES = 1_024;

/** Bounds what one connection can cost. A peer that exceeds a limit loses its connection. */
const http2Options: ServerOptions = {
  maxSessionMemory: 10,
  maxHeaderListPairs: 100,
  maxOutstandingPings: 10,
  maxSettings: 16,
  maxSessionInvalidFrames: 32,
  maxSessionRejectedStreams: 100,
  settings: {
    enablePush: false,
    // An Envoy worker that has more calls running opens another connection.
    maxConcurrentStreams: 256,
    maxHeaderListSize: MAX_HEADER_BYTES,
    initialWindowSize: STREAM_WINDOW_BYTES,
  },
};
/** For addresses that may only call health checks. */
const outsiderOptions: ServerOptions = {
  ...http2Options,
  maxSessionMemory: 1,
  settings: { enablePush: false, maxConcurrentStreams: 4, maxHeaderListSize: MAX_HEADER_BYTES },
};

export function createEnvoyListener(options: EnvoyListenerOptions) {
  const { methods, routes, limits, sheds = () => false, log } = options;
  const timeouts = { ...defaultTimeouts, ...options.timeouts };
  const access = createAccessChecks(options.access);
  const buffers = createBuffers(limits);
  const expiry = createExpiry(timeouts.bodyMs);
  const maxMessageBytes = () => limits().maxMessageBytes;
  const grpc = createGrpcServer({ methods, maxMessageBytes, maxPublicBytes: MAX_PUBLIC_BYTES, sheds, expiry, log });
  const http = createHttpRoutes({
    routes,
    maxBodyBytes: maxMessageBytes,
    maxPublicBytes: MAX_PUBLIC_BYTES,
    sheds,
    expiry,
    log,
  });
  const peers = createPeers({
    access,
    maxConnections: () => limits().maxConnections,
    buffersFor: () => buffers.forConnection(),
    clock: options.clock,
  });
  const connections = peers.all;
  let closing = false;

  const serverOptions = {
    noDelay: true,
    keepAlive: true,
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: Math.min(timeouts.handshakeMs, timeouts.bodyMs),
    requestTimeout: timeouts.bodyMs,
    connectionsCheckingInterval: Math.min(timeouts.handshakeMs / 4, 1_000),
  };
  const server = createServer(serverOptions, (request, response) => {
    const peer = connections.get(request.socket);
    if (peer === undefined) return request.socket.destroy();
    if (closing || peer.isOutsider) response.shouldKeepAlive = false;
    http.serveHttp1(request, response, peer);
  });
  server.on("clientError", (_error, socket) => socket.destroy());
  // The HTTP/1.1 server accepts only the connections that do not start with the HTTP/2 preface.
  const acceptHttp1 = server.listeners("connection") as ((this: Server, socket: Socket) => void)[];
  server.removeAllListeners("connection");

  function serveStream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, peer: Peer): void {
    // Emitted when the peer resets the stream. The handlers of the stream see the "close" event that follows.
    stream.on("error", ignore);
    // nghttp2 enforces the limit only when the peer has acknowledged it.
    if (stream.session?.pendingSettingsAck === true && headerBytes(headers) > MAX_HEADER_BYTES) {
      stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
      return;
    }
    if (!GRPC_TYPE.test(headers["content-type"] ?? "")) {
      http.serveHttp2(stream, headers, peer);
      return;
    }
    if (grpc.isPublic(headers[":path"] ?? "")) {
      const serve = () => grpc.serve(stream, headers, peer.buffers);
      if (peer.isAuthorized) serve();
      else peer.inTurn(stream, serve);
      return;
    }
    const denial = peer.check(headers.authorization);
    if (denial === undefined) {
      grpc.serve(stream, headers, peer.buffers);
      return;
    }
    const status = denial.kind === "forbidden" ? PERMISSION_DENIED : UNAUTHENTICATED;
    peer.inTurn(stream, () => endWithStatus(stream, new GrpcError(status, denial.detail)));
  }

  /** `handshake`: called when the peer has sent its settings and acknowledged ours. */
  function acceptHttp2(socket: Socket, peer: Peer, handshake: () => void): void {
    // The HTTP/1.1 server accepts half-open connections. HTTP/2 has no use for them: a peer that ended has disconnected.
    socket.allowHalfOpen = false;
    const session = performServerHandshake(socket, peer.isOutsider ? outsiderOptions : http2Options);
    peer.session = session;
    if (!peer.isOutsider) session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    session.on("error", (error) => log.debug({ err: error }, "an HTTP/2 connection of an Envoy failed"));
    session.on("stream", (stream, headers) => serveStream(stream, headers, peer));
    session.once("remoteSettings", () => {
      // A peer that does not acknowledge the settings would not be bound by them.
      if (session.pendingSettingsAck) session.once("localSettings", handshake);
      else handshake();
    });
    const end = () => {
      session.close();
      setTimeout(() => socket.destroy(), GOODBYE_MS).unref();
    };
    const unauthorizedMs = peer.isOutsider ? timeouts.outsiderMs : timeouts.unauthorizedMs;
    const timer = setTimeout(() => {
      if (!peer.isAuthorized) end();
    }, unauthorizedMs);
    let [quietMs, bytesBefore] = [0, 0];
    const stopTests = every(timeouts.pingMs, () => {
      const isQuiet = socket.bytesRead - bytesBefore <= PING_BYTES;
      bytesBefore = socket.bytesRead;
      quietMs = isQuiet ? quietMs + timeouts.pingMs : 0;
      if (quietMs >= timeouts.idleMs) end();
      else if (isQuiet) testSession(session, timeouts.handshakeMs);
    });
    session.on("close", () => {
      clearTimeout(timer);
      stopTests();
    });
    if (closing) session.close();
  }

  server.on("connection", (socket: Socket) => {
    const peer = peers.accept(socket);
    if (peer === undefined) return;
    // Those that have shown no credentials are closed first when there are too many.
    setIdleRule(socket, () => (peer.isAuthorized ? undefined : 0));
    socket.setKeepAlive(true, TCP_KEEP_ALIVE_MS);
    const timer = setTimeout(() => socket.destroy(), timeouts.handshakeMs);
    const handshake = () => clearTimeout(timer);
    socket.on("close", handshake);
    detectProtocol(socket, (protocol) => {
      peer.hasProtocol = true;
      if (protocol === "http2") {
        acceptHttp2(socket, peer, handshake);
        return;
      }
      handshake();
      for (const accept of acceptHttp1) accept.call(server, socket);
      socket.resume();
    });
  });

  async function close(graceMs: number): Promise<void> {
    closing = true;
    const stopped = new Promise<void>((resolve) => {
      // `Server.close` of HTTP does not count the connections that use HTTP/2.
      NetServer.prototype.close.call(server, () => resolve());
    });
    for (const [socket, { session, hasProtocol }] of connections) {
      // Running calls finish. Calls that arrive from now on are refused by GOAWAY, which tells the peer to retry elsewhere.
      if (session !== undefined) session.close();
      else if (!hasProtocol) socket.destroy();
    }
    server.closeIdleConnections();
    const timer = setTimeout(() => {
      if (connections.size > 0) {
        log.warn({ connections: connections.size }, "disconnected Envoys at the end of the drain");
      }
      for (const socket of connections.keys()) socket.destroy();
    }, graceMs);
    await stopped;
    clearTimeout(timer);
    expiry.close();
    server.close();
  }

  let closed: Promise<void> | undefined;
  return {
    /** Not listening yet. */
    server,
    openConnections: () => connections.size,
    /** Accepts no more connections, and waits for running calls. Disconnects the rest after `graceMs`. */
    close(graceMs: number): Promise<void> {
      closed ??= close(graceMs);
      return closed;
    },
  };
}

/**
 * After some protocol errors Node neither reads nor closes a connection, even if its peer has closed it. Then a ping gets no
 * reply, and the connection is closed here.
 */
function testSession(session: ServerHttp2Session, withinMs: number): void {
  if (session.destroyed) return;
  const timer = setTimeout(() => session.destroy(), withinMs);
  session.ping(() => clearTimeout(timer));
}

function ignore(): void {}

/** As HTTP/2 counts them: 32 bytes of overhead for each. */
function headerBytes(headers: IncomingHttpHeaders): number {
  let bytes = 0;
  for (const [name, value = ""] of Object.entries(headers)) bytes += name.length + String(value).length + 32;
  return bytes;
}
