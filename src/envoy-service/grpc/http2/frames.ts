/** The frames of HTTP/2 (RFC 9113): their numbers, how they are cut out of bytes, and how they are gathered to be sent. */

export const DATA = 0;
export const HEADERS = 1;
export const PRIORITY = 2;
export const RST_STREAM = 3;
export const SETTINGS = 4;
export const PUSH_PROMISE = 5;
export const PING = 6;
export const GOAWAY = 7;
export const WINDOW_UPDATE = 8;
export const CONTINUATION = 9;

export const END_STREAM = 0x1;
export const ACK = 0x1;
export const END_HEADERS = 0x4;
export const PADDED = 0x8;
export const WITH_PRIORITY = 0x20;

export const NO_ERROR = 0;
export const PROTOCOL_ERROR = 1;
export const INTERNAL_ERROR = 2;
export const FLOW_CONTROL_ERROR = 3;
export const STREAM_CLOSED = 5;
export const FRAME_SIZE_ERROR = 6;
export const REFUSED_STREAM = 7;
export const CANCEL = 8;
export const COMPRESSION_ERROR = 9;
export const ENHANCE_YOUR_CALM = 11;

export const SETTINGS_MAX_CONCURRENT_STREAMS = 3;
export const SETTINGS_INITIAL_WINDOW_SIZE = 4;
export const SETTINGS_MAX_FRAME_SIZE = 5;
export const SETTINGS_MAX_HEADER_LIST_SIZE = 6;

export const HEAD_BYTES = 9;
/** What either side may send where the other has not said that it takes more; we never do. */
export const FRAME_BYTES = 16_384;
export const LARGEST_WINDOW = 0x7fff_ffff;

/** The connection cannot go on; the code says why. */
export class ConnectionError extends Error {
  constructor(
    readonly code: number,
    text: string,
  ) {
    super(text);
  }
}

export const broken = (text: string) => new ConnectionError(PROTOCOL_ERROR, text);

/** What is left of a payload without the bytes that only hide its length. */
export function withoutPadding(flags: number, payload: Buffer): Buffer {
  if ((flags & PADDED) === 0) return payload;
  const padding = payload[0] ?? 0;
  if (payload.length < 1 + padding) throw broken("more padding than there is");
  return payload.subarray(1, payload.length - padding);
}

export function settingsPayload(settings: [name: number, value: number][]): Buffer {
  const payload = Buffer.alloc(settings.length * 6);
  for (const [i, [name, value]] of settings.entries()) {
    payload.writeUInt16BE(name, i * 6);
    payload.writeUInt32BE(value, i * 6 + 2);
  }
  return payload;
}

export type TakeFrame = (type: number, flags: number, stream: number, payload: Buffer) => void;

/** Gives each frame that is complete to `took`; its payload is a view that is good until it returns. */
export function createFrameReader(took: TakeFrame): (chunk: Buffer) => void {
  let kept: Buffer[] = [];
  let keptBytes = 0;
  let neededBytes = 0;
  return (chunk) => {
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
    neededBytes = HEAD_BYTES;
    while (bytes.length - at >= HEAD_BYTES) {
      const length = (bytes[at]! << 16) | (bytes[at + 1]! << 8) | bytes[at + 2]!;
      if (length > FRAME_BYTES) throw new ConnectionError(FRAME_SIZE_ERROR, "a frame is too large");
      const whole = HEAD_BYTES + length;
      if (bytes.length - at < whole) {
        neededBytes = whole;
        break;
      }
      const stream = bytes.readUInt32BE(at + 5) & 0x7fff_ffff;
      took(bytes[at + 3]!, bytes[at + 4]!, stream, bytes.subarray(at + HEAD_BYTES, at + whole));
      at += whole;
    }
    if (at === bytes.length) return;
    kept.push(bytes.subarray(at));
    keptBytes = bytes.length - at;
  };
}

const SMALLEST = 4_096;

/** Frames on their way out, sent together: many answers share one write. */
export class Output {
  private buffer = Buffer.allocUnsafe(SMALLEST);
  private used = 0;

  get isEmpty(): boolean {
    return this.used === 0;
  }

  frame(type: number, flags: number, stream: number, payload: Uint8Array, start = 0, end = payload.length): void {
    const length = end - start;
    this.head(type, flags, stream, length);
    this.buffer.set(start === 0 && end === payload.length ? payload : payload.subarray(start, end), this.used);
    this.used += length;
  }

  /** A frame whose payload is one number. */
  number(type: number, stream: number, value: number): void {
    this.head(type, 0, stream, 4);
    this.used = this.buffer.writeUInt32BE(value, this.used);
  }

  /** What was gathered. It belongs to the caller from then on. */
  take(): Buffer {
    const taken = this.buffer.subarray(0, this.used);
    this.buffer = Buffer.allocUnsafe(Math.max(SMALLEST, this.used));
    this.used = 0;
    return taken;
  }

  private head(type: number, flags: number, stream: number, length: number): void {
    const needed = this.used + HEAD_BYTES + length;
    if (needed > this.buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.buffer.length * 2, needed));
      this.buffer.copy(larger, 0, 0, this.used);
      this.buffer = larger;
    }
    const { buffer, used } = this;
    buffer[used] = length >>> 16;
    buffer[used + 1] = length >>> 8;
    buffer[used + 2] = length;
    buffer[used + 3] = type;
    buffer[used + 4] = flags;
    buffer.writeUInt32BE(stream, used + 5);
    this.used = used + HEAD_BYTES;
  }
}
