/** gRPC message framing: each message follows a flag byte and a four-byte length, at any position in the stream's chunks. */
import { type BufferShare, ChunkList } from "../buffers.js";
import { GrpcError, INTERNAL, RESOURCE_EXHAUSTED, UNIMPLEMENTED } from "./status.js";

const PREFIX_BYTES = 5;

export interface MessageReaderOptions {
  maxBytes: number;
  /** The grpc-encoding header. Compressed messages are rejected. */
  encoding: string | string[] | undefined;
  /** Limits what is buffered of incomplete messages. */
  buffers: BufferShare;
}

export type MessageReader = ReturnType<typeof createMessageReader>;

export function createMessageReader(
  { maxBytes, encoding, buffers }: MessageReaderOptions,
  received: (message: Buffer) => void,
) {
  /** The start of an incomplete message. */
  const held = new ChunkList(buffers);
  let neededBytes = 0;

  function frameLength(bytes: Buffer, at: number): number {
    const flag = bytes[at]!;
    if (flag === 1 && encoding !== undefined && encoding !== "identity") {
      throw new GrpcError(UNIMPLEMENTED, "compressed messages are not supported");
    }
    if (flag !== 0) throw new GrpcError(INTERNAL, "a message has a flag that its headers do not explain");
    const length = bytes.readUInt32BE(at + 1);
    if (length > maxBytes) {
      throw new GrpcError(RESOURCE_EXHAUSTED, `a message of ${length} bytes is larger than ${maxBytes}`);
    }
    return PREFIX_BYTES + length;
  }

  function hold(chunk: Buffer): void {
    if (!held.add(chunk)) throw new GrpcError(RESOURCE_EXHAUSTED, "too many bytes of incomplete messages");
  }

  return {
    /** Passes each message that is complete to `received`. Throws a GrpcError if the input is invalid. */
    push(chunk: Buffer): void {
      let bytes = chunk;
      if (held.bytes > 0) {
        hold(chunk);
        if (held.bytes < neededBytes) return;
        bytes = held.join();
      }
      let at = 0;
      neededBytes = PREFIX_BYTES;
      while (bytes.length - at >= PREFIX_BYTES) {
        const length = frameLength(bytes, at);
        if (bytes.length - at < length) {
          neededBytes = length;
          break;
        }
        received(bytes.subarray(at + PREFIX_BYTES, at + length));
        at += length;
      }
      if (at < bytes.length) hold(bytes.subarray(at));
    },
    /** No part of a message is buffered. */
    isComplete: () => held.bytes === 0,
    /** Frees what is buffered. */
    close: () => held.clear(),
  };
}

/** The message if the chunk is exactly one, uncompressed and not too large; otherwise undefined. */
export function onlyMessage(chunk: Buffer, maxBytes: number): Buffer | undefined {
  const length = chunk.length - PREFIX_BYTES;
  if (length < 0 || length > maxBytes || chunk[0] !== 0 || chunk.readUInt32BE(1) !== length) return undefined;
  return chunk.subarray(PREFIX_BYTES);
}

export function framed(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, PREFIX_BYTES);
  return frame;
}
