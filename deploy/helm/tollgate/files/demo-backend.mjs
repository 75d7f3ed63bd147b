/**
 * A backend for trials, without dependencies: HTTP answers with the name of this container; a WebSocket is greeted with it, and
 * gets back what it sends. GET /slow?ms=N answers after N milliseconds, GET /counts with the requests so far and the number of
 * open WebSockets.
 */
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { hostname } from "node:os";

const port = Number(process.env.PORT ?? 9000);
const sockets = new Set();
let requests = 0;

const server = createServer((request, response) => {
  const url = new URL(request.url, "http://localhost");
  if (url.pathname === "/counts") return response.end(JSON.stringify({ requests, connections: sockets.size }));
  requests++;
  const delayMs = url.pathname.endsWith("/slow") ? Number(url.searchParams.get("ms") ?? 0) : 0;
  setTimeout(() => response.end(`hello from ${hostname()}\n`), delayMs);
});

server.on("upgrade", (request, socket) => {
  const key = request.headers["sec-websocket-key"];
  const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
  );
  sockets.add(socket);
  socket.on("close", () => sockets.delete(socket));
  socket.on("error", () => socket.destroy());
  socket.write(frame(1, Buffer.from(hostname())));
  let received = Buffer.alloc(0);
  socket.on("data", (chunk) => {
    received = Buffer.concat([received, chunk]);
    for (let message = read(received); message !== undefined; message = read(received)) {
      received = received.subarray(message.length);
      if (message.opcode === 8) return socket.end(frame(8, message.data));
      if (message.opcode === 9) socket.write(frame(10, message.data));
      if (message.opcode === 1 || message.opcode === 2) socket.write(frame(message.opcode, message.data));
    }
  });
});

/** An unmasked frame. Demo messages are below 64 KiB. */
function frame(opcode, data) {
  const head = data.length < 126 ? Buffer.from([0x80 | opcode, data.length]) : Buffer.from([0x80 | opcode, 126, 0, 0]);
  if (data.length >= 126) head.writeUInt16BE(data.length, 2);
  return Buffer.concat([head, data]);
}

/** The first complete frame of a client, or undefined. */
function read(bytes) {
  if (bytes.length < 6) return undefined;
  const short = bytes[1] & 0x7f;
  const maskAt = short < 126 ? 2 : 4;
  const size = short < 126 ? short : bytes.readUInt16BE(2);
  const length = maskAt + 4 + size;
  if (bytes.length < length) return undefined;
  const mask = bytes.subarray(maskAt, maskAt + 4);
  const data = Buffer.from(bytes.subarray(maskAt + 4, length)).map((byte, i) => byte ^ mask[i % 4]);
  return { opcode: bytes[0] & 0x0f, data, length };
}

server.listen(port);
for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    server.close();
    for (const socket of sockets) socket.destroy();
    setTimeout(() => process.exit(0), 200);
  });
}
