/**
 * Lets a backend close its connection while its response is paused. Without this, undici throws an assertion error from the
 * socket's event, which nobody can catch, and the process ends: https://github.com/nodejs/undici/issues/5360
 */
import { isIP, type Socket } from "node:net";
import { buildConnector } from "undici";
import type { TlsFiles, TlsMaterial } from "../../../shared/tls/tls-files.js";

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

/** TLS of the connections to a target. */
export interface BackendTls {
  /** The name or address that the certificate must have. It does not depend on the Host of a request. */
  readonly serverName: string;
  /** Undefined: the CAs of Node.js and no own certificate. */
  readonly files: TlsFiles | undefined;
}

/** A connector for undici's pools. */
export function backendConnector(timeoutMs: number, { serverName, files }: BackendTls): buildConnector.connector {
  let material: TlsMaterial | undefined;
  let connect = buildConnector({ timeout: timeoutMs });
  // An address is not allowed in SNI. Without a name, Node compares the address itself with the certificate.
  const servername = isIP(serverName) === 0 ? serverName : "";
  return (options, callback) => {
    const latest = files?.current();
    if (material !== latest) {
      material = latest;
      // A new one, because it would resume sessions that the old files have verified.
      connect = buildConnector({ ...latest, timeout: timeoutMs });
    }
    connect({ ...options, servername }, (...[error, socket]) => {
      if (error !== null) {
        callback(error, null);
        return;
      }
      // Before the listeners of undici.
      socket.on("end", onEnd).on("error", onError);
      callback(null, socket);
    });
  };
}
