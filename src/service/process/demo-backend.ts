/** A small backend for trials: three endpoints. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { listen } from "./listen.js";

const MOST_BYTES = 1024 ** 3;
const CHUNK = Buffer.alloc(64 * 1024, "tollgate ");

/** Returns its address, as host:port. By default a free loopback port. */
export async function startDemoBackend(address = "127.0.0.1:0") {
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://demo");
    if (url.pathname === "/" || url.pathname === "/api/hello")
      sendJson(response, 200, { hello: "from behind the tollgate" });
    else if (url.pathname === "/api/big") sendBytes(response, url.searchParams.get("bytes") ?? "1048576");
    else if (url.pathname === "/api/echo") echo(request, response);
    else sendJson(response, 404, { error: "not_found", try: ["/api/hello", "/api/big?bytes=1048576", "/api/echo"] });
  });
  const { host, port } = await listen({ server, option: "demo backend", address });
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { target: `${host}:${port}`, close };
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  const text = `${JSON.stringify(body)}\n`;
  response.writeHead(status, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text) });
  response.end(text);
}

/** Respects backpressure: only a few chunks are in memory. */
function sendBytes(response: ServerResponse, wanted: string): void {
  const bytes = /^[0-9]{1,10}$/.test(wanted) ? Number(wanted) : -1;
  if (bytes < 0 || bytes > MOST_BYTES) {
    sendJson(response, 400, { error: "bytes", reason: `must be a whole number from 0 to ${MOST_BYTES}` });
    return;
  }
  response.writeHead(200, { "Content-Type": "application/octet-stream", "Content-Length": bytes });
  Readable.from(chunks(bytes)).pipe(response);
}

function* chunks(bytes: number): Generator<Buffer> {
  for (let left = bytes; left > 0; left -= CHUNK.length) yield CHUNK.subarray(0, left);
}

function echo(request: IncomingMessage, response: ServerResponse): void {
  const type = request.headers["content-type"] ?? "application/octet-stream";
  response.writeHead(200, { "Content-Type": type, "X-Echo-Method": request.method ?? "" });
  request.pipe(response);
}
