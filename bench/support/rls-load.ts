/**
 * Load generator: calls ShouldRateLimit over one HTTP/2 connection with a fixed number of calls in flight, as an Envoy
 * worker does. It writes prepared bytes, because a complete HTTP/2 client would cost more CPU than the server under test.
 */
import { connect } from "node:net";
import { Writer } from "../../src/envoy-service/grpc/protobuf-writer.js";
import { SHOULD_RATE_LIMIT } from "../../src/envoy-service/rate-limit/service.js";

const DATA = 0;
const HEADERS = 1;
const RST_STREAM = 3;
const SETTINGS = 4;
const PING = 6;
const GOAWAY = 7;
const WINDOW_UPDATE = 8;
const END_STREAM = 1;
const ACK = 1;
const END_HEADERS = 4;
const FRAME_HEAD_BYTES = 9;

function frame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.alloc(FRAME_HEAD_BYTES + payload.length);
  bytes.writeUIntBE(payload.length, 0, 3);
  bytes[3] = type;
  bytes[4] = flags;
  bytes.writeUInt32BE(stream, 5);
  bytes.set(payload, FRAME_HEAD_BYTES);
  return bytes;
}

/** HPACK literals without indexing: the simplest encoding, which needs no state. */
function headerBlock(headers: Record<string, string>): Buffer {
  const text = (value: string) => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
  return Buffer.concat(Object.entries(headers).flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]));
}

function message(): Buffer {
  const writer = new Writer();
  const descriptor = writer.text(1, "tollgate").open(2);
  const entry = writer.open(1);
  return writer.text(1, "app_id").text(2, "video").close(entry).close(descriptor).finish();
}

const body = message();
const prefix = Buffer.alloc(5);
prefix.writeUInt32BE(body.length, 1);
const callHeaders = headerBlock({
  ":method": "POST",
  ":scheme": "http",
  ":path": SHOULD_RATE_LIMIT,
  ":authority": "tollgate_envoy",
  te: "trailers",
  "grpc-timeout": "20m",
  "content-type": "application/grpc",
});
const call = Buffer.concat([
  frame(HEADERS, END_HEADERS, 0, callHeaders),
  frame(DATA, END_STREAM, 0, Buffer.concat([prefix, body])),
]);
const dataFrameAt = FRAME_HEAD_BYTES + callHeaders.length;

function callOn(stream: number): Buffer {
  const bytes = Buffer.from(call);
  bytes.writeUInt32BE(stream, 5);
  bytes.writeUInt32BE(stream, dataFrameAt + 5);
  return bytes;
}

const windowUpdate = Buffer.alloc(4);
windowUpdate.writeUInt32BE(0x3fff_ffff);
const nothing = Buffer.alloc(0);

/** Resolves with the number of calls that were answered within the time. Rejects if a call ends without a message. */
export function callFor(port: number, milliseconds: number, inFlight: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    socket.setNoDelay(true);
    let nextStream = 1;
    let messages = 0;
    let done = 0;
    let output: Buffer[] = [];
    let input: Buffer = nothing;

    function start(): void {
      output.push(callOn(nextStream));
      nextStream += 2;
    }

    function received(type: number, flags: number, payload: Buffer): void {
      if (type === SETTINGS && (flags & ACK) === 0) output.push(frame(SETTINGS, ACK, 0, nothing));
      else if (type === PING && (flags & ACK) === 0) output.push(frame(PING, ACK, 0, payload));
      else if (type === RST_STREAM || type === GOAWAY) throw new Error("the server ended a call");
      else if (type === DATA && payload.length > 0) messages++;
      else if (type === HEADERS && (flags & END_STREAM) !== 0) {
        done++;
        // A call that fails has its status in the first headers, and no message.
        if (messages < done) throw new Error("a call ended without a message");
        start();
      }
    }

    socket.on("error", reject);
    socket.on("data", (chunk: Buffer) => {
      input = input.length === 0 ? chunk : Buffer.concat([input, chunk]);
      try {
        let at = 0;
        while (input.length - at >= FRAME_HEAD_BYTES) {
          const end = at + FRAME_HEAD_BYTES + input.readUIntBE(at, 3);
          if (end > input.length) break;
          received(input[at + 3]!, input[at + 4]!, input.subarray(at + FRAME_HEAD_BYTES, end));
          at = end;
        }
        input = input.subarray(at);
      } catch (error) {
        reject(error);
        socket.destroy();
      }
      if (output.length > 0) socket.write(Buffer.concat(output));
      output = [];
    });
    socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    output.push(frame(SETTINGS, 0, 0, nothing), frame(WINDOW_UPDATE, 0, 0, windowUpdate));
    for (let i = 0; i < inFlight; i++) start();
    socket.write(Buffer.concat(output));
    output = [];
    setTimeout(() => {
      socket.destroy();
      resolve(done);
    }, milliseconds);
  });
}
