/** gRPC message frames in chunks of any size, with the protobuf messages and the JSON that the listener for Envoy reads. */
import { createBuffers } from "../../src/envoy-service/buffers.js";
import { createMessageReader, framed } from "../../src/envoy-service/grpc/framing.js";
import { WrongField } from "../../src/envoy-service/grpc/message-type.js";
import { ProtobufError } from "../../src/envoy-service/grpc/protobuf.js";
import { Writer } from "../../src/envoy-service/grpc/protobuf-writer.js";
import { GrpcError } from "../../src/envoy-service/grpc/status.js";
import { readJsonRequest, readRequest } from "../../src/envoy-service/rate-limit/request.js";
import { byteAt, type FuzzTarget } from "../target.js";

const MAX_MESSAGE = 16_384;
const LIMITS = { maxBufferedBytes: 65_536, maxMessageBytes: MAX_MESSAGE };

/** The first byte selects the reader, the second one the size of the chunks. The rest is the stream. */
const readers: ((message: Uint8Array) => unknown)[] = [
  readRequest,
  (message) => readJsonRequest(JSON.parse(Buffer.from(message).toString("utf8"))),
];

export const grpc: FuzzTarget = {
  seeds: seeds(),
  words: [
    ...[
      "\x00\x00\x00\x00\x00",
      "\x00\x00\x00\x40\x00",
      "\x01\x00\x00\x00\x05",
      "\x00\xff\xff\xff\xff",
      "\x0a\x00",
      "\x12\x04",
    ],
    ...[
      "\x0b",
      "\x0c",
      "\x13",
      "\x14",
      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
      "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
    ],
    ...['{"domain":"a"}', '{"__proto__":{}}', "[", '{"a":', "1e309", "-1", '"\\ud800"', "\xc3\x28", "\xf0\x9f\x92\xa9"],
  ],
  maxBytes: 32_768,
  budget: { cpuMs: 250, memoryMb: 32 },
  async start() {
    return { run, async stop() {} };
  },
};

function run(input: Buffer): void {
  const read = readers[byteAt(input, 0) % readers.length]!;
  const chunkBytes = byteAt(input, 1) + 1;
  let reserved = 0;
  const share = createBuffers(() => LIMITS).forConnection();
  const buffers: typeof share = {
    take(bytes) {
      const taken = share.take(bytes);
      if (taken) reserved += bytes;
      return taken;
    },
    giveBack(chunks, bytes) {
      reserved -= bytes;
      share.giveBack(chunks, bytes);
    },
  };
  const reader = createMessageReader({ maxBytes: MAX_MESSAGE, encoding: undefined, buffers }, (message) => {
    if (message.length > MAX_MESSAGE) throw new Error(`a message of ${message.length} bytes`);
    read(message);
  });
  try {
    for (let at = 2; at < input.length; at += chunkBytes) reader.push(input.subarray(at, at + chunkBytes));
  } catch (error) {
    const isRejection =
      error instanceof GrpcError ||
      error instanceof ProtobufError ||
      error instanceof WrongField ||
      error instanceof SyntaxError;
    if (!isRejection) throw error;
  } finally {
    reader.close();
  }
  if (reserved !== 0) throw new Error(`${reserved} bytes are still reserved after the end`);
}

function seeds(): Buffer[] {
  const writer = new Writer();
  const descriptor = writer.text(1, "edge").open(2);
  const entry = writer.open(1);
  writer.text(1, "user").text(2, "ann").close(entry);
  const limit = writer.open(2);
  writer.uint(1, 42).uint(2, 3).close(limit);
  writer.close(descriptor);
  const request = framed(writer.uint(3, 3).finish());
  const json = framed(
    Buffer.from('{"domain":"edge","descriptors":[{"entries":[{"key":"a","value":"b"}],"limit":{"unit":"HOUR"}}]}'),
  );
  const [whole, small] = [255, 2];
  return [
    Buffer.concat([Buffer.from([0, whole]), request]),
    Buffer.concat([Buffer.from([0, small]), request, request]),
    Buffer.concat([Buffer.from([1, whole]), json]),
  ];
}
