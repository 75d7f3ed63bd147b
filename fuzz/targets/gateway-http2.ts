/** Sequences of HTTP/2 frames, sent to the Node gateway: they end at most their own connection, and every request is settled. */
import { createServer } from "node:net";
import { headerBlock, huffmanHeader } from "../../test/support/http2-frames.js";
import { getHead } from "../../test/support/http2-heads.js";
import type { FuzzTarget, RunningTarget } from "../target.js";
import { frameSequence, isAnswered, record } from "./frame-sequences.js";
import { exchange, listening, startFuzzedGateway } from "./gateway.js";

const head = getHead("/");
const upload = getHead("/upload", "POST");
const [trailers, cookies] = [headerBlock({ "x-trailer": "1" }), headerBlock({ cookie: "a=1" })];
const settled = record(4, 1, 0);
const body = Buffer.from("hello");

export const gatewayHttp2: FuzzTarget = {
  seeds: [
    Buffer.concat([settled, record(1, 5, 1, head), record(1, 5, 3, head)]),
    Buffer.concat([settled, record(1, 4, 1, upload), record(0, 0, 1, body), record(0, 1, 1, body)]),
    Buffer.concat([settled, record(1, 4, 1, upload), record(0, 0, 1, body), record(1, 5, 1, trailers)]),
    Buffer.concat([
      settled,
      record(1, 4, 1, upload),
      record(0, 0, 1, body),
      record(3, 0, 1, Buffer.from([0, 0, 0, 8])),
    ]),
    Buffer.concat([record(4, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0])), record(1, 5, 1, head)]),
    Buffer.concat([record(1, 0, 1, head.subarray(0, 8)), record(9, 5, 1, head.subarray(8))]),
    Buffer.concat([settled, record(1, 5, 1, Buffer.concat([head, cookies, cookies, huffmanHeader("x", 800)]))]),
    Buffer.concat([settled, record(1, 4, 1, getHead("/ws", "CONNECT")), record(1, 5, 3, getHead("/../%2e", "TRACE"))]),
  ],
  words: [
    ...[settled, record(1, 5, 3, head), record(1, 4, 5, upload), record(0, 0, 5, body), record(0, 1, 5)],
    ...[record(3, 0, 5, Buffer.alloc(4)), record(8, 0, 0, Buffer.from([0x7f, 0xff, 0xff, 0xff])), record(9, 0, 1)],
    ...[record(6, 0, 0, Buffer.alloc(8)), record(4, 0, 0, Buffer.from([0, 5, 0, 255, 255, 255])), record(7, 0, 0)],
    ...[headerBlock({ "content-length": "5" }), headerBlock({ expect: "100-continue" }), headerBlock({ host: "b" })],
    ...[headerBlock({ ":authority": "b" }), headerBlock({ "transfer-encoding": "chunked" }), headerBlock({ te: "x" })],
  ].map((bytes) => bytes.toString("latin1")),
  maxBytes: 32_768,
  budget: { cpuMs: 500, memoryMb: 48 },
  start,
};

async function start(): Promise<RunningTarget> {
  const gateway = await startFuzzedGateway();
  // As after a handshake in which the client has chosen HTTP/2.
  const secure = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => {});
    gateway.server.emit("connection", Object.assign(socket, { alpnProtocol: "h2" }));
  });
  const port = await listening(secure);
  return {
    async run(input) {
      await exchange(port, frameSequence(input), isAnswered);
      await gateway.check();
    },
    async stop() {
      secure.close();
      await gateway.stop();
    },
  };
}
