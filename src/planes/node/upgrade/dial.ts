/** Sends the request for an upgrade to a target, on a separate connection. */
import { request as httpRequest, type IncomingMessage } from "node:http";
import { isIP, connect as netConnect, type Socket } from "node:net";
import { connect as tlsConnect } from "node:tls";
import { ignore } from "../http/client-connections.js";
import type { Failure } from "../upstream/failures.js";
import type { Target } from "../upstream/upstream.js";

export interface UpgradeCall {
  target: Pick<Target, "origin" | "tls">;
  method: string;
  path: string;
  /** A flat list. */
  headers: string[];
  headerBytes: number;
}

/** Exactly one of the last three is called; none after hanging up. */
export interface CallHandler {
  connected(): void;
  /** The backend switched the protocol; `head` contains its first bytes. */
  switched(response: IncomingMessage, socket: Socket, head: Buffer): void;
  /** Any status except 101. */
  refused(response: IncomingMessage): void;
  failed(error: Failure): void;
}

/**
 * Closes the connection. `gone` is called when the backend has closed it too, and does not count it any more, or after
 * `lingerMs`.
 */
export type HangUp = (lingerMs: number, gone: () => void) => void;

export function dial({ target, method, path, headers, headerBytes }: UpgradeCall, handler: CallHandler): HangUp {
  let socket!: Socket;
  let over = false;
  const finish = (): boolean => {
    const first = !over;
    over = true;
    return first;
  };
  const request = httpRequest({
    method,
    path,
    headers,
    maxHeaderSize: headerBytes,
    insecureHTTPParser: false,
    // Called synchronously.
    createConnection: () => {
      socket = connectTo(target);
      return socket;
    },
  });
  socket.once("encrypted" in socket ? "secureConnect" : "connect", () => {
    if (!over) handler.connected();
  });
  request.once("upgrade", (response: IncomingMessage, _: unknown, head: Buffer) => {
    if (finish()) handler.switched(response, socket, head);
    else socket.on("error", ignore).resume();
  });
  request.once("response", (response) => {
    // Without an Upgrade header it is no valid switch.
    if (response.statusCode === 101) request.destroy(new Error("a 101 response without Upgrade"));
    else if (finish()) handler.refused(response);
    else response.on("error", ignore).resume();
  });
  request.on("error", (error: Failure) => {
    if (finish()) handler.failed(error);
  });
  request.end();

  return (lingerMs, gone) => {
    finish();
    if (socket.closed) {
      gone();
      return;
    }
    const timer = setTimeout(() => socket.destroy(), lingerMs);
    socket.once("close", () => {
      clearTimeout(timer);
      gone();
    });
    if (socket.connecting) socket.destroy();
    else socket.end();
  };
}

function connectTo({ origin, tls }: UpgradeCall["target"]): Socket {
  const url = new URL(origin);
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const secure = url.protocol === "https:";
  const port = url.port === "" ? (secure ? 443 : 80) : Number(url.port);
  const options = { host, port, noDelay: true, allowHalfOpen: true };
  if (!secure) return netConnect(options);
  const { serverName, files } = tls;
  return tlsConnect({
    ...options,
    ...files?.current(),
    ALPNProtocols: ["http/1.1"],
    ...(isIP(serverName) === 0 ? { servername: serverName } : {}),
  });
}
