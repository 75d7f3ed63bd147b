/** Bytes of HTTP/1 requests, sent to the Node gateway: what reaches the backend is always well-formed, and others are served. */
import type { FuzzTarget, RunningTarget } from "../target.js";
import { exchange, startFuzzedGateway } from "./gateway.js";

const heads = [
  "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
  "POST /upload?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /next HTTP/1.1\r\nHost: a\r\n\r\n",
  "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5;ext=1\r\nhello\r\n0\r\nX: y\r\n\r\n",
  "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, X-A\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
  "OPTIONS * HTTP/1.0\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX-App-Id: a\r\n\r\n",
  "POST / HTTP/1.1\r\nHost: [::1]:80\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
  "GET http://a/b HTTP/1.1\r\nHost: a\r\nCookie: a=b\r\nTE: trailers\r\nKeep-Alive: 5\r\n\r\n",
];
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
  const { port, wrong, check, stop } = await startFuzzedGateway();
  return {
    async run(input) {
      const reply = await exchange(port, input);
      if (reply.length > 0 && !/^HTTP\/1\.1 [1-5][0-9]{2} /.test(reply.toString("latin1"))) {
        wrong.push(`the reply is not HTTP: ${JSON.stringify(reply.toString("latin1", 0, 40))}`);
      }
      await check();
    },
    stop,
  };
}
