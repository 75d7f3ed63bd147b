/** Knows where the frames of a WebSocket end while its bytes pass by: reads their headers, copies nothing, judges nothing. */

const START = 0;
const LENGTH = 1;
const EXTENDED = 2;
const PAYLOAD = 3;

const CLOSE = 8;

/** RFC 6455, 5.2. One for each direction. */
export class FrameTracker {
  /** A close frame has begun: nothing may follow it. */
  closeSeen = false;
  private stage = START;
  /** Bytes of the current stage that have not come. */
  private left = 0;
  private length = 0;
  private maskBytes = 0;

  /** Whether a frame of one's own can be put in here. */
  get betweenFrames(): boolean {
    return this.stage === START;
  }

  /** Takes note of bytes that pass. Returns how many of them belong to frames that are whole now; -1 if none ended here. */
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

  /** The masking key is passed over like the payload that it belongs to. */
  private begin(length: number): void {
    this.stage = PAYLOAD;
    this.left = length + this.maskBytes;
  }
}
