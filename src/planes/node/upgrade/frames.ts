/** WebSocket frames: where they end in a byte stream, and close frames sent by the proxy. */
import { randomFillSync } from "node:crypto";

const START = 0;
const LENGTH = 1;
const EXTENDED = 2;
const PAYLOAD = 3;

const CLOSE = 8;
const PONG = 10;

/**
 * Tracks where frames end in a byte stream: RFC 6455, 5.2. One for each direction. Reads frame headers only; copies and
 * validates nothing.
 */
export class FrameTracker {
  /** A close frame has begun: nothing may follow it. */
  closeSeen = false;
  private stage = START;
  /** Missing bytes of the current stage. */
  private left = 0;
  private length = 0;
  private maskBytes = 0;

  /** Whether another frame can be inserted here. */
  get betweenFrames(): boolean {
    return this.stage === START;
  }

  /** Returns the number of bytes up to the end of the last complete frame in the chunk; -1 if no frame ends in it. */
  pass(chunk: Uint8Array): number {
    const size = chunk.length;
    let whole = -1;
    let at = 0;
    while (at < size) {
      if (this.stage === PAYLOAD) {
        const step = Math.min(this.left, size - at);
        at += step;
        this.left -= step;
      } else this.readHeaderByte(chunk[at++]!);
      if (this.stage === PAYLOAD && this.left === 0) {
        this.stage = START;
        whole = at;
      }
    }
    return whole;
  }

  private readHeaderByte(byte: number): void {
    switch (this.stage) {
      case START:
        if ((byte & 0x0f) === CLOSE) this.closeSeen = true;
        this.stage = LENGTH;
        return;
      case LENGTH: {
        this.maskBytes = byte & 0x80 ? 4 : 0;
        const length = byte & 0x7f;
        if (length < 126) {
          this.begin(length);
          return;
        }
        this.stage = EXTENDED;
        this.left = length === 126 ? 2 : 8;
        this.length = 0;
        return;
      }
      default:
        this.length = this.length * 256 + byte;
        if (--this.left === 0) this.begin(this.length);
    }
  }

  /** The masking key is skipped with the payload. */
  private begin(length: number): void {
    this.stage = PAYLOAD;
    this.left = length + this.maskBytes;
  }
}

/** The gateway shuts down, or the connection was idle. */
export const GOING_AWAY = 1001;
/** The app has no tokens for more bytes. */
export const POLICY_VIOLATION = 1008;
/** The connection lost its slot, or the store is unavailable; the client may reconnect. */
export const TRY_AGAIN_LATER = 1013;

const reasons: Record<number, string> = {
  [GOING_AWAY]: "going away",
  [POLICY_VIOLATION]: "rate limit exceeded",
  [TRY_AGAIN_LATER]: "try again later",
};

/** What the gateway's pings contain; a pong repeats it. */
const PING_TEXT = "tollgate";

/** A ping to the client: RFC 6455, 5.5.2. */
export function pingFrame(): Buffer {
  return Buffer.from(`\x89${String.fromCharCode(PING_TEXT.length)}${PING_TEXT}`, "latin1");
}

/** Whether the chunk, which begins with a frame, is exactly the client's pong to `pingFrame`. */
export function isOwnPong(chunk: Buffer): boolean {
  const { length } = PING_TEXT;
  if (chunk.length !== 6 + length || chunk[0] !== (0x80 | PONG) || chunk[1] !== (0x80 | length)) return false;
  for (let i = 0; i < length; i++) {
    if ((chunk[6 + i]! ^ chunk[2 + (i & 3)]!) !== PING_TEXT.charCodeAt(i)) return false;
  }
  return true;
}

/** RFC 6455, 5.5.1. `masked`: as sent by a client, to the backend. */
export function closeFrame(code: number, masked: boolean): Buffer {
  const reason = reasons[code] ?? "";
  const payloadAt = masked ? 6 : 2;
  const frame = Buffer.alloc(payloadAt + 2 + reason.length);
  frame[0] = 0x88;
  frame[1] = (masked ? 0x80 : 0) | (2 + reason.length);
  frame.writeUInt16BE(code, payloadAt);
  frame.write(reason, payloadAt + 2, "latin1");
  if (masked) {
    randomFillSync(frame, 2, 4);
    for (let at = payloadAt; at < frame.length; at++) frame[at]! ^= frame[2 + ((at - payloadAt) & 3)]!;
  }
  return frame;
}
