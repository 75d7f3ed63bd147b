/** The clients' HTTP/2 connections: their limits, timeouts and streams. Each stream is served as a connection with one request. */
import {
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerOptions,
} from "node:http2";
import type { Socket } from "node:net";
import { setIdleRule } from "../../../shared/connection-limits.js";
import { type Connection, connectionOn, streamConnection } from "../http/client-connections.js";
import type { OptionsInForce, Shared } from "../options.js";
import { StreamRequest, StreamResponse, StreamSocket } from "./stream.js";

export interface SessionsOptions {
  shared: Shared;
  options(): OptionsInForce;
  serve(connection: Connection, request: StreamRequest, response: StreamResponse): void;
  /** Checks the timeouts of a stream. */
  sweep(connection: Connection): void;
}

interface Stream {
  connection: Connection;
  request: StreamRequest;
  socket: StreamSocket;
}

interface Session {
  http2: ServerHttp2Session;
  /** The template for those of its streams. */
  connection: Connection;
  streams: Set<Stream>;
  /** Since when it has no streams, on the proxy's clock. */
  idleSinceMs: number;
  /** No stream was opened yet. */
  isNew: boolean;
  /** When a ping was sent that has no reply yet. */
  pingedMs: number | undefined;
}

/** As many as the default of `request_limits.requests_per_client`. */
const MAX_STREAMS = 256;
/** Buffered for a stream whose backend is slow. */
const STREAM_WINDOW_BYTES = 65_535;
/** Shared by the streams; what arrives is buffered by streams, so it does not add to the memory. */
const CONNECTION_WINDOW_BYTES = 1_048_576;
/** Between the announcement that a connection will be closed and its end. */
const GOODBYE_MS = 1_000;

/** Bounds what one connection can cost. A client that exceeds a limit loses its connection. */
function sessionOptions({ limits }: OptionsInForce): ServerOptions {
  return {
    maxSessionMemory: 10,
    // Slightly larger heads get the same response as over HTTP/1.1. The pseudo headers are not counted there.
    maxHeaderListPairs: limits.headerCount * 2 + 4,
    maxOutstandingPings: 10,
    maxSettings: 16,
    maxSessionInvalidFrames: 32,
    maxSessionRejectedStreams: 100,
    settings: {
      enablePush: false,
      maxConcurrentStreams: MAX_STREAMS,
      maxHeaderListSize: limits.headerBytes * 2,
      initialWindowSize: STREAM_WINDOW_BYTES,
    },
  };
}

export function createSessions({ shared, options, serve, sweep }: SessionsOptions) {
  const all = new Map<Socket, Session>();

  function accept(socket: Socket): void {
    if (socket.destroyed) return;
    const http2 = performServerHandshake(socket, sessionOptions(options()));
    http2.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    const { clockMs } = shared;
    const connection = connectionOn(socket, options().isTrusted, clockMs);
    const session: Session = {
      http2,
      connection,
      streams: new Set(),
      idleSinceMs: clockMs,
      isNew: true,
      pingedMs: undefined,
    };
    all.set(socket, session);
    setIdleRule(socket, () => (session.streams.size === 0 ? session.idleSinceMs : undefined));
    http2.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "ERR_HTTP2_ERROR" && error.code !== "ERR_HTTP2_SESSION_ERROR") return;
      const { remoteAddress: client } = connection;
      shared.log.info({ reason: "malformed_request", client, cause: error.message }, "HTTP/2 connection failed");
    });
    http2.on("stream", (stream: ServerHttp2Stream, _headers: unknown, _flags: number, raw: string[]) =>
      opened(session, stream, raw),
    );
    http2.on("close", () => all.delete(socket));
    // Also if an error has left the session open.
    socket.on("close", () => http2.destroy());
    if (shared.draining) leave(session);
  }

  function opened(session: Session, stream: ServerHttp2Stream, raw: string[]): void {
    const socket = new StreamSocket(stream);
    const connection = streamConnection(session.connection, socket, shared.clockMs);
    const request = new StreamRequest(stream, raw);
    const one = { connection, request, socket };
    session.isNew = false;
    session.streams.add(one);
    const gone = () => {
      for (const running of [...connection.running]) running.clientGone();
    };
    // Follows a reset. The "close" event follows it.
    stream.on("error", () => {});
    // Before "end", so that a body that was cut off is not taken for a complete one.
    stream.on("aborted", () => {
      if (!socket.isReset) gone();
    });
    stream.on("close", () => {
      session.streams.delete(one);
      session.idleSinceMs = shared.clockMs;
      gone();
      if (socket.isReset) ping(session);
    });
    serve(connection, request, new StreamResponse(stream, request));
  }

  /** After a stream was aborted: its client may not read the connection at all. Then what is buffered for it must not stay. */
  function ping(session: Session): void {
    if (session.pingedMs !== undefined || session.http2.destroyed) return;
    session.pingedMs = shared.clockMs;
    session.http2.ping(() => {
      session.pingedMs = undefined;
    });
  }

  /** Further requests are refused by GOAWAY, so that the client repeats them elsewhere. `sweepSession` closes the connection. */
  function leave(session: Session): void {
    if (session.http2.closed) return;
    session.http2.close();
    session.idleSinceMs = shared.clockMs;
  }

  function sweepSession(session: Session): void {
    const { http2, streams, isNew, idleSinceMs, pingedMs, connection } = session;
    const { timeouts } = options();
    const { clockMs } = shared;
    const idleMs = clockMs - idleSinceMs;
    if (streams.size === 0 && http2.closed && idleMs > GOODBYE_MS) cut(session);
    else if (streams.size === 0 && idleMs > (isNew ? timeouts.headersMs : timeouts.keepAliveMs)) leave(session);
    // A client that does not acknowledge the settings is not bound by them.
    else if (http2.pendingSettingsAck && clockMs - connection.openedMs > timeouts.headersMs) cut(session);
    else if (pingedMs !== undefined && clockMs - pingedMs > timeouts.bodyIdleMs) cut(session);
    for (const stream of streams) {
      sweep(stream.connection);
      if (isOverdue(stream, timeouts.requestMs)) failOverdue(stream);
    }
  }

  /** node:http checks this for HTTP/1.1. */
  function isOverdue({ connection, request }: Stream, requestMs: number): boolean {
    return requestMs > 0 && !request.complete && shared.clockMs - connection.openedMs > requestMs;
  }

  return {
    size: () => all.size,
    accept,
    /** Called by the proxy's timer. */
    sweep(): void {
      for (const session of all.values()) sweepSession(session);
    },
    updateTrust(): void {
      const { isTrusted } = options();
      for (const { connection } of all.values()) connection.trusted = isTrusted(connection.remoteAddress);
    },
    /** Accepts no new streams, and closes each connection after its last one. */
    drain(): void {
      for (const session of all.values()) leave(session);
    },
    close(): void {
      for (const session of all.values()) cut(session);
    },
  };
}

/** `destroy` of the session alone would wait until the client has read what was sent. */
function cut({ http2, connection }: Session): void {
  http2.destroy();
  connection.socket.destroy();
}

function failOverdue({ connection, socket }: Stream): void {
  if (connection.running.size === 0) socket.destroy();
  for (const running of [...connection.running]) running.fail("body_timeout");
}
