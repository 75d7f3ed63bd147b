/** Backends for tests of the proxy: HTTP servers, and TCP servers that send what the test defines. */
import { once } from "node:events";
import { createServer as createHttpServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Socket, type Server as TcpServer } from "node:net";

export interface Backend {
  readonly port: number;
  /** In the form of the proxy's options. */
  readonly target: string;
  /** Connections accepted so far. */
  connections(): number;
  stop(): Promise<void>;
}

export async function startBackend(listener: RequestListener, port = 0): Promise<Backend & { server: Server }> {
  const server = createHttpServer({ requestTimeout: 0 }, listener);
  return { ...(await listen(server, port)), server };
}

/** The test handles every connection. */
export async function startRawBackend(onConnection: (socket: Socket) => void): Promise<Backend> {
  const server = createTcpServer((socket) => {
    socket.on("error", () => socket.destroy());
    onConnection(socket);
  });
  return listen(server, 0);
}

/** Sends the same bytes for every complete request. For requests without a body. */
export function startBytesBackend(bytes: string, { end = false } = {}): Promise<Backend> {
  return startRawBackend((socket) => {
    let seen = "";
    socket.on("data", (chunk) => {
      seen += chunk.toString("latin1");
      if (!seen.includes("\r\n\r\n")) return;
      seen = "";
      socket.write(bytes, "latin1");
      if (end) socket.end();
    });
  });
}

async function listen(server: TcpServer, port: number): Promise<Backend> {
  const open = new Set<Socket>();
  let accepted = 0;
  server.on("connection", (socket: Socket) => {
    accepted++;
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const bound = (server.address() as AddressInfo).port;
  return {
    port: bound,
    target: `127.0.0.1:${bound}`,
    connections: () => accepted,
    async stop() {
      const closed = once(server, "close");
      server.close();
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}

/** Responds with the received request, including its body, as JSON. */
export const mirror: RequestListener = (request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const body = Buffer.concat(chunks).toString("latin1");
    const seen: Mirrored = { method: request.method!, url: request.url!, rawHeaders: request.rawHeaders, body };
    respond(response, JSON.stringify(seen));
  });
};

export interface Mirrored {
  method: string;
  url: string;
  rawHeaders: string[];
  body: string;
}

function respond(response: ServerResponse, body: string): void {
  response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}

/** All values of a header in a list of raw headers. */
export function valuesIn(raw: string[], name: string): string[] {
  return raw.filter((_, at) => at % 2 === 1 && raw[at - 1]!.toLowerCase() === name.toLowerCase());
}
