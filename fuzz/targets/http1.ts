/** Bytes of HTTP/1 requests, sent to the Node gateway: what reaches the backend is always well-formed, and others are served. */
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, type Server } from "node:net";
import { createProxy } from "../../src/planes/node/http/proxy.js";
import type { FuzzTarget, RunningTarget } from "../target.js";

const heads = [
  "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
  "POST /upload?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /next HTTP/1.1\r\nHost: a\r\n\r\n",
  "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5;ext=1\r\nhello\r\n0\r\nX: y\r\n\r\n",
  "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, X-A\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
  "OPTIONS * HTTP/1.0\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX-App-Id: a\r\n\r\n",
  "POST / HTTP/1.1\r\nHost: [::1]:80\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
  "GET http://a/b HTTP/1.1\r\nHost: a\r\nCookie: a=b\r\nTE: trailers\r\nKeep-Alive: 5\r\n\r\n",
];
/** The longest time for a reply. */
const WAIT_MS = 500;
const HEALTH_EVERY = 50;

export const http1: FuzzTarget = {
  seeds: heads.map((head) => Buffer.from(head)),
  words: [
    ...[
      "\r\n",
      "\n",
      "\r",
      "\0",
      " ",
      "\t",
      ":",
      "\r\n ",
      "HTTP/1.1",
      "HTTP/2.0",
      "GET ",
      "CONNECT a:1 ",
      "TRACE / ",
      "0\r\n\r\n",
      "ffffffffffffffff\r\n",
    ],
    ...[
      "Content-Length: 0\r\n",
      "Content-Length: -5\r\n",
      "Content-Length: 1e3\r\n",
      "Content-Length : 5\r\n",
      "content-length: 5, 5\r\n",
    ],
    ...[
      "Transfer-Encoding: chunked\r\n",
      "Transfer-Encoding: identity\r\n",
      "Transfer-Encoding:\tchunked\r\n",
      "Transfer-Encoding : chunked\r\n",
    ],
    ...[
      "Host: b\r\n",
      "Host:\r\n",
      "Connection: close\r\n",
      "Connection: content-length\r\n",
      "Upgrade: h2c\r\n",
      "X: \x80\xff\r\n",
      "a".repeat(300),
    ],
  ],
  maxBytes: 32_768,
  budget: { cpuMs: 250, memoryMb: 32 },
  start,
};

async function start(): Promise<RunningTarget> {
  const wrong: string[] = [];
  // The gateway adds headers to those that it accepts.
  const backend = createServer({ maxHeaderSize: 32_768 }, (request, response) => {
    const problem = malformed(request);
    if (problem !== undefined) wrong.push(problem);
    request.resume().on("end", () => response.end("ok"));
  });
  // The parser of the backend is strict: what it rejects, the gateway must not send.
  backend.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const isMalformed = error.code?.startsWith("HPE_") === true && error.code !== "HPE_INVALID_EOF_STATE";
    if (isMalformed) wrong.push(`the backend got a malformed request: ${error.message}`);
    socket.destroy();
  });
  const target = `127.0.0.1:${await listening(backend)}`;
  const verdict = { allowed: true, headers: {}, status: 200, body: "", app: "a" };
  let running = 0;
  const proxy = createProxy({
    routes: [{ path: "/", upstream: "backend" }],
    upstreams: { backend: { targets: [target] } },
    timeouts: { lingerMs: 10 },
    admission: {
      admit() {
        running++;
        return verdict;
      },
      settle: () => void running--,
    },
    log: { info() {}, warn: (fields) => fields.reason === "internal_error" && wrong.push(JSON.stringify(fields)) },
  });
  const port = await listening(proxy.server);
  let inputs = 0;

  return {
    async run(input) {
      const reply = await exchange(port, input);
      if (reply.length > 0 && !/^HTTP\/1\.1 [1-5][0-9]{2} /.test(reply.toString("latin1"))) {
        wrong.push(`the reply is not HTTP: ${JSON.stringify(reply.toString("latin1", 0, 40))}`);
      }
      if (++inputs % HEALTH_EVERY === 0) {
        const { status } = await fetch(`http://127.0.0.1:${port}/`);
        if (status !== 200) wrong.push(`another client got ${status}`);
      }
      if (wrong.length > 0) throw new Error(wrong.splice(0).join("; "));
    },
    async stop() {
      await proxy.close();
      backend.closeAllConnections();
      backend.close();
      if (running !== 0) throw new Error(`${running} admitted requests were not settled`);
    },
  };
}

function malformed({ rawHeaders, headers, url = "" }: IncomingMessage): string | undefined {
  const names = rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
  const count = (name: string) => names.filter((other) => other === name).length;
  if (count("content-length") + count("transfer-encoding") > 1) return `framing is ambiguous: ${rawHeaders}`;
  if (count("host") !== 1) return `${count("host")} Host headers: ${rawHeaders}`;
  if (headers["keep-alive"] !== undefined || headers["proxy-connection"] !== undefined)
    return "hop-by-hop headers are forwarded";
  return url.startsWith("/") || url === "*" ? undefined : `the target is ${JSON.stringify(url)}`;
}

/** Sends bytes and the end of the stream, and returns what is received until the connection is closed, or `isOver`. */
export function exchange(port: number, bytes: Buffer, isOver = (_received: Buffer) => false): Promise<Buffer> {
  return new Promise((resolve) => {
    let received = Buffer.alloc(0);
    const socket = connect(port, "127.0.0.1", () => socket.end(bytes));
    const timer = setTimeout(() => socket.destroy(), WAIT_MS);
    socket.on("error", () => {});
    socket.on("data", (data) => {
      received = Buffer.concat([received, data]);
      if (isOver(received)) socket.destroy();
    });
    socket.on("close", () => {
      clearTimeout(timer);
      resolve(received);
    });
  });
}

export async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}
