/** Messages out of the bytes of a gRPC stream, however they are cut: five bytes of flag and length before each. */
import { GrpcError, INTERNAL, RESOURCE_EXHAUSTED, UNIMPLEMENTED } from "./status.js";

export const PREFIX_BYTES = 5;

export interface Frames {
  /** Each message that is complete now goes to `took`, as a view that is good until it returns. Throws a GrpcError. */
  push(chunk: Buffer): void;
  /** Throws where the stream ended within a message. */
  end(): void;
}

/** `encoding` is the header grpc-encoding: compressed messages are not read, and the status says why. */
export function createFrames(mostBytes: number, encoding: string | undefined, took: (message: Buffer) => void): Frames {
  /** The beginning of a message, whose end is still to come. Put together once, or a caller who sends byte by byte would be costly. */
  let kept: Buffer[] = [];
  let keptBytes = 0;
  let neededBytes = 0;

  function wholeLength(bytes: Buffer, at: number): number {
    const flag = bytes[at]!;
    if (flag === 1 && encoding !== undefined && encoding !== "identity") {
      throw new GrpcError(UNIMPLEMENTED, "compressed messages are not read here");
    }
    if (flag !== 0) throw new GrpcError(INTERNAL, "a message has a flag that its headers do not explain");
    const length = bytes.readUInt32BE(at + 1);
    if (length > mostBytes) {
      throw new GrpcError(RESOURCE_EXHAUSTED, `a message of ${length} bytes is larger than ${mostBytes}`);
    }
    return PREFIX_BYTES + length;
  }

  return {
    push(chunk) {
      let bytes = chunk;
      if (keptBytes > 0) {
        kept.push(chunk);
        keptBytes += chunk.length;
        if (keptBytes < neededBytes) return;
        bytes = Buffer.concat(kept, keptBytes);
        kept = [];
        keptBytes = 0;
      }
      let at = 0;
      neededBytes = PREFIX_BYTES;
      while (bytes.length - at >= PREFIX_BYTES) {
        const length = wholeLength(bytes, at);
        if (bytes.length - at < length) {
          neededBytes = length;
          break;
        }
        took(bytes.subarray(at + PREFIX_BYTES, at + length));
        at += length;
      }
      if (at === bytes.length) return;
      kept.push(bytes.subarray(at));
      keptBytes = bytes.length - at;
    },
    end() {
      if (keptBytes > 0) throw new GrpcError(INTERNAL, "the stream ends within a message");
    },
  };
}

/** The message, where the chunk is exactly one that is neither compressed nor too large. */
export function wholeMessage(chunk: Buffer, mostBytes: number): Buffer | undefined {
  const length = chunk.length - PREFIX_BYTES;
  if (length < 0 || length > mostBytes || chunk[0] !== 0 || chunk.readUInt32BE(1) !== length) return undefined;
  return chunk.subarray(PREFIX_BYTES);
}

/** A message with its five bytes before it. */
export function framed(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, PREFIX_BYTES);
  return frame;
}
