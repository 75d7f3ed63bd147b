/** Backends that speak WebSocket: a real server of the `ws` package, and one whose every byte is the test's own. */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { type ServerOptions, type WebSocket, WebSocketServer } from "ws";
import { type Backend, startBackend, startRawBackend } from "./http-backend.js";

export interface WebSocketBackend extends Backend {
  readonly server: WebSocketServer;
  /** Connections as the backend itself sees them. */
  open(): number;
  readonly requests: IncomingMessage[];
  /** Does not close idle HTTP connections. */
  keepConnections(): void;
}

export type OnSocket = (socket: WebSocket, request: IncomingMessage) => void;

export async function startWebSocketBackend(
  onSocket: OnSocket = echo,
  options: ServerOptions = {},
  port = 0,
): Promise<WebSocketBackend> {
  const requests: IncomingMessage[] = [];
  const backend = await startBackend((_, response) => void response.end("plain"), port);
  const server = new WebSocketServer({ server: backend.server, ...options });
  server.on("connection", (socket, request) => {
    requests.push(request);
    socket.on("error", () => socket.terminate());
    onSocket(socket, request);
  });
  return {
    ...backend,
    server,
    requests,
    open: () => server.clients.size,
    keepConnections() {
      backend.server.keepAliveTimeout = 0;
    },
    async stop() {
      for (const client of server.clients) client.terminate();
      await backend.stop();
    },
  };
}

export const echo: OnSocket = (socket) => {
  socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
};

/** Reads the request's head, then hands the connection over; `rest` came behind the head. */
export function startRawUpgradeBackend(onHead: (socket: Socket, head: string, rest: Buffer) => void): Promise<Backend> {
  return startRawBackend((socket) => {
    let seen = Buffer.alloc(0);
    const read = (chunk: Buffer) => {
      seen = Buffer.concat([seen, chunk]);
      const end = seen.indexOf("\r\n\r\n");
      if (end < 0) return;
      socket.off("data", read);
      onHead(socket, seen.subarray(0, end + 4).toString("latin1"), seen.subarray(end + 4));
    };
    socket.on("data", read);
  });
}

/** The 101 response to a request's head. */
export function switching(head: string, protocol = "websocket"): string {
  const key = /^sec-websocket-key: *(.*?) *$/im.exec(head)?.[1] ?? "";
  const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
  return (
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n` +
    `Sec-WebSocket-Accept: ${accept}\r\n\r\n`
  );
}

/** The head of a client that asks for a protocol. */
export function upgradeHead({ path = "/", protocol = "websocket", more = "", method = "GET" } = {}): string {
  return (
    `${method} ${path} HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: ${protocol}\r\n` +
    `Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n${more}\r\n`
  );
}
