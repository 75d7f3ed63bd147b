/** Protocol Buffers on the wire: a reader that takes any bytes, and says what is wrong with them. */

export const VARINT = 0;
export const FIXED64 = 1;
export const LENGTH = 2;
const GROUP = 3;
const GROUP_END = 4;
export const FIXED32 = 5;

/** What a field begins with. A known field that comes with another wire type has another tag, and so is skipped. */
export const tag = (field: number, wire: number) => field * 8 + wire;

/** The bytes are no message. */
export class ProtobufError extends Error {}

/** Deeper groups, in fields that nobody knows, are somebody's attempt on the stack. */
const MOST_DEPTH = 64;

/**
 * Reads field by field: `while (reader.next()) switch (reader.tag) { case tag(1, LENGTH): reader.text() … default: reader.skip() }`.
 * Whole numbers above 2^53 - 1 are read as 2^53 - 1, the largest that is exact: nobody's limit is beyond it.
 */
export class Reader {
  /** Of the field that was begun last. */
  tag = 0;
  private at: number;
  private readonly end: number;

  constructor(
    private readonly bytes: Uint8Array,
    start = 0,
    end = bytes.length,
  ) {
    this.at = start;
    this.end = end;
  }

  /** Begins the next field; false at the end of the message. */
  next(): boolean {
    if (this.at >= this.end) return false;
    const read = this.uint();
    const wire = read & 7;
    if (read > 0xffff_ffff || read < 8 || wire > FIXED32 || wire === GROUP_END) {
      throw new ProtobufError("a field begins with an invalid tag");
    }
    this.tag = read;
    return true;
  }

  /** uint64. */
  uint(): number {
    const { bytes, end } = this;
    let byte = this.at < end ? bytes[this.at++]! : truncated();
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    let factor = 0x80;
    for (let count = 1; count < 10; count++) {
      byte = this.at < end ? bytes[this.at++]! : truncated();
      value += (byte & 0x7f) * factor;
      factor *= 0x80;
      if (byte < 0x80) return Math.min(value, Number.MAX_SAFE_INTEGER);
    }
    throw new ProtobufError("a number has more than ten bytes");
  }

  /** uint32, int32 and enums: whatever was sent, the lower 32 bits of it. */
  uint32(): number {
    const { bytes, end } = this;
    let value = 0;
    for (let count = 0; count < 10; count++) {
      const byte = this.at < end ? bytes[this.at++]! : truncated();
      if (count < 5) value |= (byte & 0x7f) << (7 * count);
      if (byte < 0x80) return value >>> 0;
    }
    throw new ProtobufError("a number has more than ten bytes");
  }

  /** int64: exact within ±(2^53 - 1), and the nearer of both outside. */
  int(): number {
    const { bytes, end } = this;
    let low = 0;
    let high = 0;
    for (let count = 0; count < 10; count++) {
      const byte = this.at < end ? bytes[this.at++]! : truncated();
      const part = byte & 0x7f;
      if (count < 4) low |= part << (7 * count);
      else if (count === 4) {
        low |= part << 28;
        high |= part >> 4;
      } else if (count < 10) high |= part << (7 * count - 32);
      if (byte < 0x80) {
        const value = (high | 0) * 4_294_967_296 + (low >>> 0);
        return Math.min(Math.max(value, -Number.MAX_SAFE_INTEGER), Number.MAX_SAFE_INTEGER);
      }
    }
    throw new ProtobufError("a number has more than ten bytes");
  }

  bool(): boolean {
    return this.uint() !== 0;
  }

  fixed32(): number {
    const at = this.take(4);
    const { bytes } = this;
    return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0;
  }

  /** fixed64, as large as uint64 can be read. */
  fixed64(): number {
    const low = this.fixed32();
    return Math.min(this.fixed32() * 4_294_967_296 + low, Number.MAX_SAFE_INTEGER);
  }

  double(): number {
    const at = this.take(8);
    return new DataView(this.bytes.buffer, this.bytes.byteOffset).getFloat64(at, true);
  }

  /** A view of the message, not a copy. */
  view(): Uint8Array {
    const length = this.uint();
    const at = this.take(length);
    return this.bytes.subarray(at, at + length);
  }

  /** A message within this one. */
  message(): Reader {
    const length = this.uint();
    const at = this.take(length);
    return new Reader(this.bytes, at, at + length);
  }

  /** A string: UTF-8, as proto3 wants it. */
  text(): string {
    const length = this.uint();
    const at = this.take(length);
    const { bytes } = this;
    if (length > SHORT) return longText(bytes, at, at + length);
    let text = "";
    for (let i = at; i < at + length; i++) {
      const byte = bytes[i]!;
      if (byte >= 0x80) return longText(bytes, at, at + length);
      text += String.fromCharCode(byte);
    }
    return text;
  }

  /** Passes over the value of the field that was begun. */
  skip(): void {
    this.skipValue(this.tag, 0);
  }

  private skipValue(begun: number, depth: number): void {
    switch (begun & 7) {
      case VARINT:
        this.uint();
        return;
      case FIXED64:
        this.take(8);
        return;
      case LENGTH:
        this.take(this.uint());
        return;
      case FIXED32:
        this.take(4);
        return;
      case GROUP:
        this.skipGroup(begun >>> 3, depth + 1);
        return;
      default:
        throw new ProtobufError("a field begins with an invalid tag");
    }
  }

  private skipGroup(field: number, depth: number): void {
    if (depth > MOST_DEPTH) throw new ProtobufError(`more than ${MOST_DEPTH} groups in each other`);
    for (;;) {
      const read = this.uint();
      if (read > 0xffff_ffff || read < 8) throw new ProtobufError("a field begins with an invalid tag");
      if ((read & 7) !== GROUP_END) this.skipValue(read, depth);
      else if (read >>> 3 === field) return;
      else throw new ProtobufError("a group ends that was not begun");
    }
  }

  private take(length: number): number {
    const { at } = this;
    if (length > this.end - at) truncated();
    this.at = at + length;
    return at;
  }
}

/** Above this it is faster to let the runtime read a text. */
const SHORT = 24;
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function longText(bytes: Uint8Array, start: number, end: number): string {
  try {
    return utf8.decode(bytes.subarray(start, end));
  } catch {
    throw new ProtobufError("a text is not UTF-8");
  }
}

function truncated(): never {
  throw new ProtobufError("the message ends in the middle of a field");
}
