/** Backend pods that speak WebSocket and keep their own count of who is connected: the view that limits are checked in. */
import type { IncomingMessage } from "node:http";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";

export interface PodConnection {
  /** What the client called itself, in the query of its url. */
  client: string;
  socket: WebSocket;
}

export interface SocketPod {
  /** host:port */
  readonly address: string;
  /** Connected now, as this pod sees it. */
  readonly live: Set<PodConnection>;
  /** All that ever connected. */
  accepted(): number;
  /** Every connection ends without a word, and nobody listens until `revive`. */
  die(): Promise<void>;
  revive(): Promise<void>;
  stop(): Promise<void>;
}

/** Echoes what it hears. `opened` is called for every connection, when it is already in `live`. */
export async function startSocketPod(opened: (pod: SocketPod, connection: PodConnection) => void): Promise<SocketPod> {
  const live = new Set<PodConnection>();
  let accepted = 0;
  let server: Server | undefined;
  let port = 0;

  async function listen(): Promise<void> {
    const http = createServer((_request, response) => response.end("a pod"));
    const sockets = new WebSocketServer({ server: http });
    sockets.on("connection", (socket: WebSocket, request: IncomingMessage) => {
      const client = new URL(request.url ?? "/", "http://pod").searchParams.get("client") ?? "";
      const connection = { client, socket };
      accepted++;
      live.add(connection);
      // The end of the bytes is the end, before the WebSocket library has made sense of it.
      for (const end of ["end", "close"]) request.socket.once(end, () => live.delete(connection));
      socket.on("error", () => undefined);
      socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
      opened(pod, connection);
    });
    await new Promise<void>((resolve, reject) => {
      http.once("error", reject);
      http.listen(port, "127.0.0.1", resolve);
    });
    port = (http.address() as AddressInfo).port;
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
    get address() {
      return `127.0.0.1:${port}`;
    },
    live,
    accepted: () => accepted,
    die,
    revive: listen,
    stop: die,
  };
  await listen();
  return pod;
}
