/** The port for Envoy: gRPC over plaintext HTTP/2, and plain HTTP requests over HTTP/1.1 or HTTP/2. */
import { createServer, type Server } from "node:http";
import {
  type IncomingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerOptions,
} from "node:http2";
import { Server as NetServer, type Socket } from "node:net";
import type { Log } from "../shared/log.js";
import { type AccessCheck, createAccessChecks, type EnvoyAccess } from "./access.js";
import { createGrpcServer, endWithStatus, type GrpcMethod } from "./grpc/server.js";
import { GrpcError, PERMISSION_DENIED, UNAUTHENTICATED } from "./grpc/status.js";
import { createHttpRoutes, type HttpRoute } from "./http-routes.js";

export interface EnvoyListenerOptions {
  methods: readonly GrpcMethod[];
  routes: readonly HttpRoute[];
  /** Read on every request. */
  access(): EnvoyAccess;
  /** Limit for a gRPC message or an HTTP body. Read on every request. */
  maxMessageBytes(): number;
  log: Log;
  /** Idle HTTP/2 connections without an authorized request are closed, so that strangers cannot collect them. */
  unauthorizedIdleMs?: number;
}

interface Connection {
  check: AccessCheck;
  /** Unset for HTTP/1.1, and until the first bytes have arrived. */
  session?: ServerHttp2Session;
  hasProtocol: boolean;
  /** A request that needs access has been accepted. */
  isAuthorized: boolean;
}

const FIRST_BYTES_TIMEOUT_MS = 15_000;
const UNAUTHORIZED_IDLE_MS = 120_000;
const TCP_KEEP_ALIVE_MS = 60_000;
/** Start of the HTTP/2 connection preface. No HTTP/1.1 method that is served here starts with it. */
const PREFACE = "PRI";
const GRPC_TYPE = /^application\/grpc(\+proto)?($|;)/;
const STREAM_WINDOW_BYTES = 1_048_576;
const CONNECTION_WINDOW_BYTES = 4 * STREAM_WINDOW_BYTES;

/** Bounds what one connection can cost. A peer that exceeds a limit loses its connection. */
const http2Options: ServerOptions = {
  maxSessionMemory: 10,
  maxHeaderListPairs: 100,
  maxOutstandingPings: 10,
  maxSessionInvalidFrames: 100,
  maxSessionRejectedStreams: 100,
  settings: {
    enablePush: false,
    // An Envoy worker that has more calls running opens another connection.
    maxConcurrentStreams: 1_000,
    maxHeaderListSize: 65_536,
    initialWindowSize: STREAM_WINDOW_BYTES,
  },
};

export function createEnvoyListener(options: EnvoyListenerOptions) {
  const { methods, routes, access, maxMessageBytes, log, unauthorizedIdleMs = UNAUTHORIZED_IDLE_MS } = options;
  const checkFor = createAccessChecks(access);
  const grpc = createGrpcServer(methods, maxMessageBytes, log);
  const http = createHttpRoutes(routes, maxMessageBytes, log);
  const connections = new Map<Socket, Connection>();
  let closing = false;

  const server = createServer({ noDelay: true, keepAlive: true }, (request, response) => {
    const connection = connections.get(request.socket);
    if (connection === undefined) return request.socket.destroy();
    if (closing) response.shouldKeepAlive = false;
    http.serveHttp1(request, response, connection.check);
  });
  server.on("clientError", (_error, socket) => socket.destroy());
  // The HTTP/1.1 server accepts only the connections that do not start with the HTTP/2 preface.
  const acceptHttp1 = server.listeners("connection") as ((this: Server, socket: Socket) => void)[];
  server.removeAllListeners("connection");

  function serveStream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, check: AccessCheck): void {
    // Emitted when the peer resets the stream. The handlers of the stream see the "close" event that follows.
    stream.on("error", () => {});
    if (!GRPC_TYPE.test(headers["content-type"] ?? "")) {
      http.serveHttp2(stream, headers, check);
      return;
    }
    const denial = grpc.isPublic(headers[":path"] ?? "") ? undefined : check(headers.authorization);
    if (denial === undefined) {
      grpc.serve(stream, headers);
      return;
    }
    const status = denial.kind === "forbidden" ? PERMISSION_DENIED : UNAUTHENTICATED;
    endWithStatus(stream, new GrpcError(status, denial.detail));
  }

  function acceptHttp2(socket: Socket, connection: Connection): void {
    // The HTTP/1.1 server accepts half-open connections. HTTP/2 has no use for them: a peer that ended has disconnected.
    socket.allowHalfOpen = false;
    const session = performServerHandshake(socket, http2Options);
    connection.session = session;
    session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    session.on("error", (error) => log.debug({ err: error }, "an HTTP/2 connection of an Envoy failed"));
    session.on("stream", (stream, headers) => serveStream(stream, headers, connection.check));
    session.setTimeout(unauthorizedIdleMs, () => {
      if (!connection.isAuthorized) session.destroy();
    });
    if (closing) session.close();
  }

  server.on("connection", (socket: Socket) => {
    const check = checkFor(socket.remoteAddress ?? "");
    const connection: Connection = {
      hasProtocol: false,
      isAuthorized: false,
      check(authorization) {
        const denial = check(authorization);
        if (denial === undefined) connection.isAuthorized = true;
        return denial;
      },
    };
    connections.set(socket, connection);
    socket.on("close", () => connections.delete(socket));
    socket.setKeepAlive(true, TCP_KEEP_ALIVE_MS);
    detectProtocol(socket, (protocol) => {
      connection.hasProtocol = true;
      if (protocol === "http2") acceptHttp2(socket, connection);
      else {
        for (const accept of acceptHttp1) accept.call(server, socket);
        socket.resume();
      }
    });
  });

  async function close(graceMs: number): Promise<void> {
    closing = true;
    const stopped = new Promise<void>((resolve) => {
      // `Server.close` of HTTP does not count the connections that use HTTP/2.
      NetServer.prototype.close.call(server, () => resolve());
    });
    grpc.drain();
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
    server.close();
  }

  let closed: Promise<void> | undefined;
  return {
    /** Not listening yet. */
    server,
    openConnections: () => connections.size,
    /** Accepts no more connections, ends client streams, and waits for running calls. Disconnects the rest after `graceMs`. */
    close(graceMs: number): Promise<void> {
      closed ??= close(graceMs);
      return closed;
    },
  };
}

/** Reads the first bytes and puts them back, so that the server of that protocol gets the unchanged socket. */
function detectProtocol(socket: Socket, detected: (protocol: "http1" | "http2") => void): void {
  let received: Buffer | undefined;
  const destroy = () => socket.destroy();
  socket.setTimeout(FIRST_BYTES_TIMEOUT_MS, destroy);
  socket.on("error", destroy);
  socket.on("data", look);

  function look(chunk: Buffer): void {
    received = received === undefined ? chunk : Buffer.concat([received, chunk]);
    const start = received.toString("latin1", 0, PREFACE.length);
    if (start.length < PREFACE.length && PREFACE.startsWith(start)) return;
    socket.removeListener("data", look);
    socket.removeListener("error", destroy);
    socket.setTimeout(0, destroy);
    socket.pause();
    socket.unshift(received);
    detected(start === PREFACE ? "http2" : "http1");
  }
}
