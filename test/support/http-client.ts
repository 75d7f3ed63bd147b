/** Clients for the proxy's tests: node:http with everything visible, and bare sockets for what it would never send. */
import { once } from "node:events";
import {
  Agent,
  type ClientRequest,
  request as httpRequest,
  type IncomingMessage,
  type RequestOptions,
} from "node:http";
import { connect, type Socket } from "node:net";

export interface Reply {
  status: number;
  headers: IncomingMessage["headers"];
  rawHeaders: string[];
  body: string;
  trailers: IncomingMessage["trailers"];
  /** The local port of its connection. */
  localPort: number;
}

export function json<T>(reply: Reply): T {
  return JSON.parse(reply.body) as T;
}

/** Opens a request, without a pool by default. The caller writes and ends it. */
export function open(port: number, options: RequestOptions = {}): ClientRequest {
  return httpRequest({ host: "127.0.0.1", port, agent: new Agent(), ...options });
}

/** Sends a request and reads the whole reply. */
export async function fetchReply(
  port: number,
  path = "/",
  { body, ...options }: RequestOptions & { body?: string | Buffer } = {},
): Promise<Reply> {
  const request = open(port, { path, ...options });
  const replied = replyTo(request);
  request.end(body);
  return replied;
}

export async function replyTo(request: ClientRequest): Promise<Reply> {
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const localPort = response.socket.localPort ?? 0;
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return {
    status: response.statusCode!,
    headers: response.headers,
    rawHeaders: response.rawHeaders,
    body: Buffer.concat(chunks).toString("latin1"),
    trailers: response.trailers,
    localPort,
  };
}

export interface RawClient {
  readonly socket: Socket;
  write(text: string): void;
  /** Everything received so far. */
  text(): string;
  /** Resolves when `look` accepts what was received. */
  until(look: (text: string) => boolean): Promise<string>;
  /** Resolves with everything received when the other side has closed or reset the connection. */
  closed(): Promise<string>;
}

export async function openRaw(port: number): Promise<RawClient> {
  const socket = connect({ port, host: "127.0.0.1" });
  let text = "";
  let ended = false;
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
    socket.emit("text");
  });
  const end = () => {
    ended = true;
    socket.emit("text");
  };
  socket.on("error", end);
  socket.on("close", end);
  socket.on("end", end);
  await once(socket, "connect");
  async function until(look: (text: string) => boolean): Promise<string> {
    while (!look(text)) {
      if (ended) throw new Error(`the connection was closed after ${JSON.stringify(text)}`);
      await once(socket, "text");
    }
    return text;
  }
  return {
    socket,
    write: (more) => void socket.write(more, "latin1"),
    text: () => text,
    until,
    async closed() {
      while (!ended) await once(socket, "text");
      socket.destroy();
      return text;
    },
  };
}

/** Sends bytes and reads until the other side closes the connection. */
export async function sendRaw(port: number, bytes: string): Promise<string> {
  const client = await openRaw(port);
  client.write(bytes);
  return client.closed();
}

export function statusOf(text: string): number {
  return Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1]);
}

/** The body of the only reply, as text. */
export function bodyOf(text: string): string {
  return text.slice(text.indexOf("\r\n\r\n") + 4);
}
