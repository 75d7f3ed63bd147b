/** WebSocket backends that count their connections. Tests check limits against this count. */
import type { IncomingMessage } from "node:http";
import { createServer, type Server } from "node:http";
import { type WebSocket, WebSocketServer } from "ws";
import { freePort } from "./ports.js";

export interface PodConnection {
  /** The name of the client, from the query of its URL. */
  client: string;
  socket: WebSocket;
}

export interface SocketPod {
  /** host:port */
  readonly address: string;
  /** Open connections. */
  readonly live: Set<PodConnection>;
  /** All connections so far. */
  accepted(): number;
  /** Breaks all connections and stops listening until `revive`. */
  die(): Promise<void>;
  revive(): Promise<void>;
  stop(): Promise<void>;
}

/** Echoes messages. `opened` is called for each connection after it was added to `live`. */
export async function startSocketPod(opened: (pod: SocketPod, connection: PodConnection) => void): Promise<SocketPod> {
  const live = new Set<PodConnection>();
  let accepted = 0;
  let server: Server | undefined;
  // Not an ephemeral port: others could use it until the pod is revived.
  const port = await freePort();

  async function listen(): Promise<void> {
    const http = createServer((_request, response) => response.end("a pod"));
    const sockets = new WebSocketServer({ server: http });
    sockets.on("connection", (socket: WebSocket, request: IncomingMessage) => {
      const client = new URL(request.url ?? "/", "http://pod").searchParams.get("client") ?? "";
      const connection = { client, socket };
      accepted++;
      live.add(connection);
      // The end of the TCP stream counts, before the WebSocket library has handled it.
      for (const end of ["end", "close"]) request.socket.once(end, () => live.delete(connection));
      socket.on("error", () => undefined);
      socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
      opened(pod, connection);
    });
    await new Promise<void>((resolve, reject) => {
      http.once("error", reject);
      http.listen(port, "127.0.0.1", resolve);
    });
    server = http;
  }

  async function die(): Promise<void> {
    const dying = server;
    server = undefined;
    for (const { socket } of live) socket.terminate();
    live.clear();
    dying?.closeAllConnections();
    await new Promise((resolve) => (dying === undefined ? resolve(undefined) : dying.close(resolve)));
  }

  const pod: SocketPod = {
    address: `127.0.0.1:${port}`,
    live,
    accepted: () => accepted,
    die,
    revive: listen,
    stop: die,
  };
  await listen();
  return pod;
}
