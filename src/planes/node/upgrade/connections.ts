/** The clients' connections: what runs on each, and how one ends without taking an answer with it. */
import type { Socket } from "node:net";
import { type GatewayError, gatewayRefusal } from "../../../core/refusals.js";
import { type AddressMatcher, plainAddress } from "../../../shared/addresses.js";
import { lingerOnClose } from "../../../shared/linger.js";
import { rawResponse } from "../http/answers.js";
import type { Hop } from "../http/forwarded-heads.js";

/** What a connection needs to know of an exchange, or whatever else runs on it. */
export interface Running {
  /** The whole request has been read. */
  readonly requestComplete: boolean;
  clientGone(): void;
  fail(reason: GatewayError): void;
  /** Nobody may keep the others waiting for longer than agreed. */
  checkTime(): void;
}

export interface Connection extends Hop {
  readonly socket: Socket;
  /** In the order of their requests: more than one when the client does not wait for answers. */
  readonly running: Set<Running>;
  /** Nothing that comes on it is read as a request any more. */
  closing: boolean;
  /** The last answer is given, or waits for its turn: the connection ends with that, and not before. */
  lastAnswered: boolean;
  /** Bytes read when the last exchange ended; more than that may be a request that has not come whole. */
  readBytes: number;
  /** On the clock of the proxy's sweep, as all times here. */
  openedMs: number;
  /** For clients that do not fetch the end of their answer. */
  unsentBytes: number;
  unsentSinceMs: number;
}

export interface Connections {
  readonly all: ReadonlySet<Connection>;
  opened(socket: Socket, clockMs: number): void;
  /** It is somebody else's from now on. */
  handOver(socket: Socket): void;
  /** The networks that are believed have changed. */
  trustAnew(): void;
  of(socket: Socket): Connection | undefined;
  /** The parser could not read on, or the client took too long. Returns the reason it gave the client, if it did. */
  broken(socket: Socket, error: Error & { code?: string }): GatewayError | undefined;
  /** Answers where there is no request to answer, and ends the connection. */
  refuse(socket: Socket, reason: GatewayError): void;
}

/** What may change while connections are open. */
export interface ConnectionSettings {
  isTrusted: AddressMatcher;
  timeouts: { lingerMs: number };
}

export function createConnections(settings: () => ConnectionSettings): Connections {
  const all = new Set<Connection>();
  const bySocket = new WeakMap<Socket, Connection>();

  function refuse(socket: Socket, reason: GatewayError): void {
    lingerOnClose(socket, settings().timeouts.lingerMs);
    const { status, body } = gatewayRefusal(reason);
    socket.write(rawResponse(status, body, {}));
    socket.destroySoon();
  }

  function closed(this: Socket): void {
    const connection = bySocket.get(this)!;
    all.delete(connection);
    for (const running of [...connection.running]) running.clientGone();
  }

  return {
    all,
    refuse,
    opened(socket, clockMs) {
      const remoteAddress = plainAddress(socket.remoteAddress ?? "");
      const connection: Connection = {
        socket,
        remoteAddress,
        trusted: settings().isTrusted(remoteAddress),
        protocol: "encrypted" in socket ? "https" : "http",
        running: new Set(),
        closing: false,
        lastAnswered: false,
        readBytes: 0,
        openedMs: clockMs,
        unsentBytes: 0,
        unsentSinceMs: 0,
      };
      all.add(connection);
      bySocket.set(socket, connection);
      // Whatever it is, the connection closes with it. HTTP listens, too, but not once it has handed it over.
      socket.on("error", ignore);
      socket.once("close", closed);
    },
    handOver(socket) {
      const connection = bySocket.get(socket);
      if (connection !== undefined) all.delete(connection);
      bySocket.delete(socket);
      socket.off("close", closed);
    },
    trustAnew() {
      const { isTrusted } = settings();
      for (const connection of all) connection.trusted = isTrusted(connection.remoteAddress);
    },
    of: (socket) => bySocket.get(socket),
    broken(socket, error) {
      const connection = bySocket.get(socket);
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
      // Either the body of the last request is at fault, or what follows it; then the answers still go out.
      if (!last.requestComplete) last.fail(reason);
      return undefined;
    },
  };
}

function ignore(): void {}

/** Whether it ends with the answer that is given now. */
export function endsNow({ closing, lastAnswered }: Connection): boolean {
  return closing && !lastAnswered;
}

/** Nothing runs on it, nothing has begun to come, and it has had time to begin. */
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
