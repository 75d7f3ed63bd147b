/** One port for Envoy: gRPC over plaintext HTTP/2 and plain HTTP over either version, told apart by the first bytes. */
import { createServer, type Server } from "node:http";
import { Server as NetServer, type Socket } from "node:net";
import type { Log } from "../shared/log.js";
import { createDoors, type Door, type EnvoyAccess } from "./access.js";
import { Http2Connection } from "./grpc/http2/connection.js";
import type { Http2Stream, StreamHandler } from "./grpc/http2/stream.js";
import { createGrpcServer, GrpcError, type GrpcMethod, refuse } from "./grpc/server.js";
import { PERMISSION_DENIED, UNAUTHENTICATED } from "./grpc/status.js";
import { createHttpRoutes, type HttpRoute } from "./http-routes.js";

export interface EnvoyListenerOptions {
  methods: readonly GrpcMethod[];
  routes: readonly HttpRoute[];
  access(): EnvoyAccess;
  /** Of a message or a body, as the configuration has it now. */
  mostMessageBytes(): number;
  log: Log;
  /** Milliseconds that never go back. */
  now?: () => number;
}

export interface EnvoyListener {
  /** Not listening yet. */
  readonly server: Server;
  openConnections(): number;
  /** Takes nothing new, tells the callers to go elsewhere, and lets finish what runs; cuts what is left after the time. */
  close(graceMs: number): Promise<void>;
}

/** A connection that says nothing for so long is closed. */
const FIRST_BYTES_MS = 15_000;
/** What every HTTP/2 connection begins with; three bytes of it are not the beginning of any method that is answered here. */
const PREFACE = "PRI";

/** Of gRPC itself, with messages of Protocol Buffers. */
const GRPC_TYPE = /^application\/grpc(\+proto)?($|;)/;
const KEEP_ALIVE_MS = 60_000;

export function createEnvoyListener(options: EnvoyListenerOptions): EnvoyListener {
  const { methods, routes, access, mostMessageBytes, log, now = () => performance.now() } = options;
  const doors = createDoors(access, now);
  const grpc = createGrpcServer({ methods, mostMessageBytes, log });
  const open = new Set(methods.filter(({ isPublic }) => isPublic === true).map(({ path }) => path));
  const http = createHttpRoutes({ routes, mostBodyBytes: mostMessageBytes, log });
  const sockets = new Map<Socket, Door>();
  const http2 = new Set<Http2Connection>();
  /** Connections that have said nothing yet. */
  const silent = new Set<Socket>();
  let closing = false;

  const server = createServer({ noDelay: true, keepAlive: true }, (request, response) => {
    const door = sockets.get(request.socket);
    if (door === undefined) return request.socket.destroy();
    if (closing) response.shouldKeepAlive = false;
    return http.takeHttp1(request, response, door);
  });
  server.on("clientError", (_error, socket) => socket.destroy());
  // HTTP/1 keeps its own way to take a connection; it gets those that do not begin as HTTP/2.
  const asHttp1 = server.listeners("connection") as ((this: Server, socket: Socket) => void)[];
  server.removeAllListeners("connection");

  function takeStream(stream: Http2Stream, door: Door): StreamHandler {
    const { contentType, path, authorization } = stream.head;
    if (!GRPC_TYPE.test(contentType)) return http.takeHttp2(stream, door);
    const refusal = open.has(path) ? undefined : door.refusal(authorization);
    if (refusal === undefined) return grpc.take(stream);
    const status = refusal.kind === "forbidden" ? PERMISSION_DENIED : UNAUTHENTICATED;
    return refuse(stream, new GrpcError(status, refusal.text));
  }

  function takeHttp2(socket: Socket, door: Door): void {
    const connection = new Http2Connection(socket, { took: (stream) => takeStream(stream, door), log });
    http2.add(connection);
    socket.on("close", () => http2.delete(connection));
    if (closing) connection.close();
  }

  server.on("connection", (socket: Socket) => {
    const door = doors.open(socket.remoteAddress ?? "");
    sockets.set(socket, door);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    socket.on("close", () => sockets.delete(socket));
    silent.add(socket);
    socket.on("close", () => silent.delete(socket));
    tellApart(socket, (kind) => {
      silent.delete(socket);
      if (kind === "http2") takeHttp2(socket, door);
      else for (const take of asHttp1) take.call(server, socket);
    });
  });

  let closed: Promise<void> | undefined;
  async function close(graceMs: number): Promise<void> {
    closing = true;
    const stopped = new Promise<void>((resolve) => {
      // Not HTTP's own `close`: it knows nothing of the connections that speak HTTP/2.
      NetServer.prototype.close.call(server, () => resolve());
    });
    grpc.drain();
    for (const connection of http2) connection.close();
    server.closeIdleConnections();
    for (const socket of silent) socket.destroy();
    const timer = setTimeout(() => {
      if (sockets.size > 0)
        log.warn({ connections: sockets.size }, "connections of Envoys cut at the end of the drain");
      for (const socket of sockets.keys()) socket.destroy();
    }, graceMs);
    await stopped;
    clearTimeout(timer);
    server.close();
  }

  return {
    server,
    openConnections: () => sockets.size,
    close(graceMs) {
      closed ??= close(graceMs);
      return closed;
    },
  };
}

/** Reads as little as needed, and puts it back: whoever takes over has the socket itself, with no stream in between. */
function tellApart(socket: Socket, found: (kind: "http1" | "http2") => void): void {
  let begun: Buffer | undefined;
  const silent = () => socket.destroy();
  socket.setTimeout(FIRST_BYTES_MS, silent);
  socket.on("error", silent);
  socket.on("data", look);

  function look(chunk: Buffer): void {
    begun = begun === undefined ? chunk : Buffer.concat([begun, chunk]);
    const letters = begun.toString("latin1", 0, PREFACE.length);
    if (letters.length < PREFACE.length && PREFACE.startsWith(letters)) return;
    socket.removeListener("data", look);
    socket.removeListener("error", silent);
    socket.setTimeout(0, silent);
    socket.pause();
    socket.unshift(begun);
    found(letters === PREFACE ? "http2" : "http1");
    socket.resume();
  }
}
