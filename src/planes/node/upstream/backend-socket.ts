/**
 * Lets a backend close its connection while its response is paused. Without this, undici throws an assertion error from the
 * socket's event, which nobody can catch, and the process ends: https://github.com/nodejs/undici/issues/5360
 */
import type { Socket } from "node:net";
import { buildConnector } from "undici";

/** The part of undici's HTTP/1 parser that matters here. */
interface Parser {
  paused: boolean;
  resume(): void;
}

/** undici keeps the parser of a socket under a symbol of this name. */
function parserOf(socket: Socket): Parser | undefined {
  const key = Object.getOwnPropertySymbols(socket).find(({ description }) => description === "parser");
  return key === undefined ? undefined : (socket as unknown as Record<symbol, Parser | undefined>)[key];
}

/** All bytes were read: only the end of the response follows, which the exchange holds back itself if it has to. */
function onEnd(this: Socket): void {
  const parser = parserOf(this);
  if (parser?.paused === true) parser.resume();
}

/** undici takes a reset for the possible end of a response, and asserts that it is not paused. */
function onError(this: Socket, error: Error & { code?: string }): void {
  if (error.code === "ECONNRESET" && parserOf(this)?.paused === true) error.code = "UND_ERR_SOCKET";
}

/** A connector for undici's pools. */
export function backendConnector(timeoutMs: number): buildConnector.connector {
  const connect = buildConnector({ timeout: timeoutMs });
  return (options, callback) =>
    connect(options, (...[error, socket]) => {
      if (error !== null) {
        callback(error, null);
        return;
      }
      // Before the listeners of undici.
      socket.on("end", onEnd).on("error", onError);
      callback(null, socket);
    });
}
