/** The clients' connections: what runs on each, and how one ends without taking an answer with it. */
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { answerFor, type Reason, rawAnswer } from "./answers.js";
import type { Hop } from "./forwarded-heads.js";
import { type HopTrust, plainAddress } from "./trusted-hops.js";

/** Timeouts in ticks of the proxy's sweep. */
export interface TickLimits {
  connect: number;
  response: number;
  bodyIdle: number;
}

/** What a connection needs to know of an exchange on it. */
export interface Running {
  /** The whole request has been read. */
  readonly requestComplete: boolean;
  clientGone(): void;
  fail(reason: Reason): void;
  /** Nobody may keep the others waiting for longer than agreed. */
  checkTime(limits: TickLimits): void;
}

export interface Connection extends Hop {
  readonly socket: Socket;
  /** In the order of their requests: more than one when the client does not wait for answers. */
  readonly running: Set<Running>;
  /** Nothing that comes on it is read as a request any more. */
  closing: boolean;
  /** Bytes read when the last exchange ended; more than that may be a request that has not come whole. */
  readBytes: number;
  openedTick: number;
  /** For clients that do not fetch the end of their answer. */
  unsentBytes: number;
  unsentSinceTick: number;
}

export interface Connections {
  readonly all: ReadonlySet<Connection>;
  opened(socket: Socket, tick: number): void;
  of(socket: Socket): Connection | undefined;
  /** The parser could not read on, or the client took too long. Returns the reason it gave the client, if it did. */
  broken(socket: Socket, error: Error & { code?: string }): Reason | undefined;
  /** Answers where there is no request to answer, and ends the connection. */
  refuse(socket: Socket, reason: Reason): void;
}

export function createConnections(isTrusted: HopTrust, lingerMs: number): Connections {
  const all = new Set<Connection>();
  const bySocket = new WeakMap<Socket, Connection>();

  function refuse(socket: Socket, reason: Reason): void {
    lingerOnClose(socket, lingerMs);
    socket.write(rawAnswer(reason, STATUS_CODES[answerFor(reason).status] ?? ""));
    socket.destroySoon();
  }

  return {
    all,
    refuse,
    opened(socket, tick) {
      const remoteAddress = plainAddress(socket.remoteAddress ?? "");
      const connection: Connection = {
        socket,
        remoteAddress,
        trusted: isTrusted(remoteAddress),
        protocol: "encrypted" in socket ? "https" : "http",
        running: new Set(),
        closing: false,
        readBytes: 0,
        openedTick: tick,
        unsentBytes: 0,
        unsentSinceTick: 0,
      };
      all.add(connection);
      bySocket.set(socket, connection);
      socket.once("close", () => {
        all.delete(connection);
        for (const exchange of [...connection.running]) exchange.clientGone();
      });
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

/** Nothing runs on it, nothing has begun to come, and it has had time to begin. */
export function isIdle({ running, socket, readBytes, openedTick }: Connection, tick: number): boolean {
  return running.size === 0 && socket.bytesRead === readBytes && openedTick < tick;
}

function isProtocolError({ code = "" }: { code?: string }): boolean {
  return code.startsWith("HPE_") || code === "ERR_HTTP_REQUEST_TIMEOUT";
}

function reasonOf({ code }: { code?: string }, inBody: boolean): Reason {
  if (code === "HPE_HEADER_OVERFLOW") return "headers_too_large";
  if (code === "HPE_CHUNK_EXTENSIONS_OVERFLOW") return "body_too_large";
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return inBody ? "body_timeout" : "headers_timeout";
  return "malformed_request";
}

/**
 * A connection that is closed while bytes of the client are unread is reset, and a reset can overtake the answer. So
 * it is closed for writing only, and for good once the client has closed it too or the time is up.
 */
export function lingerOnClose(socket: Socket, lingerMs: number): void {
  socket.destroySoon = () => {
    socket.end();
    const timer = setTimeout(() => socket.destroy(), lingerMs);
    socket.once("close", () => clearTimeout(timer));
  };
}
