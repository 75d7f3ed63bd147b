/** The clients' connections: the exchanges on each, and protocol errors that belong to no request. */
import type { Socket } from "node:net";
import { type GatewayError, gatewayRefusal } from "../../../core/refusals.js";
import { type AddressMatcher, networkOf, plainAddress } from "../../../shared/addresses.js";
import { setIdleRule } from "../../../shared/connection-limits.js";
import { lingerOnClose } from "../../../shared/linger.js";
import type { OptionsInForce } from "../options.js";
import { sendAndClose } from "./responses.js";

/** An exchange or an upgrade on a connection. */
export interface Running {
  /** The whole request was read. */
  readonly requestComplete: boolean;
  clientGone(): void;
  fail(reason: GatewayError): void;
  /** Called by the proxy's timer. */
  checkTime(): void;
}

/** What the proxy needs of a socket. A stream of HTTP/2 has one, too. */
export type ClientSocket = Pick<Socket, "bytesRead" | "writable" | "writableLength" | "destroySoon"> & {
  destroy(): unknown;
  /** Closes it so that the client does not take it for the end of the response. */
  resetAndDestroy(): unknown;
};

export interface Connection extends Omit<ReturnType<typeof connectionOn>, "socket"> {
  socket: ClientSocket;
}

export function connectionOn(socket: Socket, isTrusted: AddressMatcher, clockMs: number) {
  const remoteAddress = plainAddress(socket.remoteAddress ?? "");
  return {
    socket,
    remoteAddress,
    /** Its requests are counted under this. */
    network: networkOf(remoteAddress),
    /** Its X-Forwarded-* headers are trusted. */
    trusted: isTrusted(remoteAddress),
    protocol: "encrypted" in socket ? "https" : "http",
    /** The version of HTTP, for the Via header. */
    version: "1.1",
    /** Called before a response after which the connection is closed. */
    linger: (lingerMs: number): void => lingerOnClose(socket, lingerMs),
    /** In the order of their requests; several if the client pipelines. */
    running: new Set<Running>(),
    /** Further input is not read as a request. */
    closing: false,
    /** The last response is sent or queued; the connection is closed after it. */
    lastAnswered: false,
    /** Bytes read when the last exchange ended. Further bytes may be an incomplete request. */
    readBytes: 0,
    /** On the proxy's clock, as all times here. */
    openedMs: clockMs,
    /** When the last exchange ended, or the connection was opened. */
    idleSinceMs: clockMs,
    /** To detect clients that do not read the end of their response. */
    unsentBytes: 0,
    unsentSinceMs: 0,
  };
}

/** Of an HTTP/2 stream, which has one request. `session`: the connection of the stream. */
export function streamConnection(session: Connection, socket: ClientSocket, clockMs: number): Connection {
  const { remoteAddress, network, trusted, protocol } = session;
  return {
    ...{ socket, remoteAddress, network, trusted, protocol, version: "2", linger: ignore, running: new Set<Running>() },
    ...{
      closing: false,
      lastAnswered: false,
      readBytes: 0,
      openedMs: clockMs,
      idleSinceMs: clockMs,
      unsentBytes: 0,
      unsentSinceMs: clockMs,
    },
  };
}

export function createConnections(options: () => Pick<OptionsInForce, "isTrusted" | "timeouts">) {
  const all = new Map<Socket, Connection>();

  /** Sends an error that belongs to no request, and closes the connection. */
  function refuse(socket: Socket, reason: GatewayError): void {
    sendAndClose(socket, { ...gatewayRefusal(reason), headers: {} }, options().timeouts.lingerMs);
  }

  function closed(this: Socket): void {
    const { running: open } = all.get(this)!;
    all.delete(this);
    for (const running of [...open]) running.clientGone();
  }

  return {
    all: all as ReadonlyMap<Socket, Connection>,
    refuse,
    opened(socket: Socket, clockMs: number): void {
      const connection = connectionOn(socket, options().isTrusted, clockMs);
      all.set(socket, connection);
      setIdleRule(socket, () => (connection.running.size === 0 ? connection.idleSinceMs : undefined));
      // The connection is closed after an error. The HTTP server stops listening for errors after an upgrade.
      socket.on("error", ignore);
      socket.once("close", closed);
    },
    /** The socket belongs to a tunnel from now on. */
    release(socket: Socket): void {
      all.delete(socket);
      setIdleRule(socket, () => undefined);
      socket.off("close", closed);
    },
    /** Called when the trusted networks have changed. */
    updateTrust(): void {
      const { isTrusted } = options();
      for (const connection of all.values()) connection.trusted = isTrusted(connection.remoteAddress);
    },
    of: (socket: Socket) => all.get(socket),
    /** Handles a parser error or a timeout. Returns the error that was sent to the client, if any. */
    failed(socket: Socket, error: Error & { code?: string }): GatewayError | undefined {
      const connection = all.get(socket);
      if (connection === undefined || !socket.writable || !isProtocolError(error)) {
        socket.destroy();
        return undefined;
      }
      if (connection.closing) return undefined;
      connection.closing = true;
      const last = [...connection.running].at(-1);
      const reason = reasonOf(error, last !== undefined);
      if (last === undefined) {
        refuse(socket, reason);
        return reason;
      }
      // If the error is after the last request, pending responses are still sent.
      if (!last.requestComplete) last.fail(reason);
      return undefined;
    },
  };
}

/** A listener for errors of sockets: they are closed after it. */
export function ignore(): void {}

/** Closes the connection after the next response, when the client had time to read it. */
export function closeSlowly(connection: Connection, lingerMs: number): void {
  connection.closing = true;
  connection.linger(lingerMs);
}

/** Whether the connection is closed after the next response. */
export function endsNow({ closing, lastAnswered }: Connection): boolean {
  return closing && !lastAnswered;
}

/** No exchange is open, no byte of a request has arrived, and there was time to send one. */
export function isIdle({ running, socket, readBytes, openedMs }: Connection, clockMs: number): boolean {
  return running.size === 0 && socket.bytesRead === readBytes && openedMs < clockMs;
}

function isProtocolError({ code = "" }: { code?: string }): boolean {
  return code.startsWith("HPE_") || code === "ERR_HTTP_REQUEST_TIMEOUT";
}

function reasonOf({ code }: { code?: string }, inBody: boolean): GatewayError {
  if (code === "HPE_HEADER_OVERFLOW") return "headers_too_large";
  if (code === "HPE_CHUNK_EXTENSIONS_OVERFLOW") return "body_too_large";
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return inBody ? "body_timeout" : "headers_timeout";
  return "malformed_request";
}
