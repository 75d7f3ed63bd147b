/** Reads Protocol Buffers. Throws a ProtobufError for malformed input. */

export const VARINT = 0;
export const FIXED64 = 1;
export const LENGTH = 2;
const GROUP = 3;
const GROUP_END = 4;
export const FIXED32 = 5;

/** The number a field starts with. A known field with another wire type has another tag, and is skipped. */
export const tag = (field: number, wire: number) => field * 8 + wire;

export class ProtobufError extends Error {}

/** Nested groups in unknown fields must not exhaust the stack. */
const MAX_DEPTH = 64;

/** Reads field by field. Integers above 2^53 - 1 are read as 2^53 - 1, the largest exact one. */
export class Reader {
  /** Tag of the current field. */
  tag = 0;

  constructor(
    private readonly bytes: Uint8Array,
    private at = 0,
    private readonly end = bytes.length,
  ) {}

  /** Moves to the next field; false at the end of the message. Within a group, `groupEnd` is the tag that ends it. */
  next(groupEnd?: number): boolean {
    if (this.at >= this.end) return false;
    const read = this.uint();
    const wire = read & 7;
    if (read > 0xffff_ffff || read < 8 || wire > FIXED32 || (wire === GROUP_END && read !== groupEnd)) {
      throw new ProtobufError("invalid tag");
    }
    this.tag = read;
    return true;
  }

  /** uint64 */
  uint(): number {
    let byte = this.byte();
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    let factor = 0x80;
    for (let count = 1; count < 10; count++) {
      byte = this.byte();
      value += (byte & 0x7f) * factor;
      factor *= 0x80;
      if (byte < 0x80) return Math.min(value, Number.MAX_SAFE_INTEGER);
    }
    throw new ProtobufError("a number has more than ten bytes");
  }

  /** uint32, int32 and enums: the lower 32 bits. */
  uint32(): number {
    let value = 0;
    for (let count = 0; count < 10; count++) {
      const byte = this.byte();
      if (count < 5) value |= (byte & 0x7f) << (7 * count);
      if (byte < 0x80) return value >>> 0;
    }
    throw new ProtobufError("a number has more than ten bytes");
  }

  double(): number {
    const at = this.take(8);
    return new DataView(this.bytes.buffer, this.bytes.byteOffset).getFloat64(at, true);
  }

  /** A nested message. */
  message(): Reader {
    const length = this.uint();
    const at = this.take(length);
    return new Reader(this.bytes, at, at + length);
  }

  /** A string, which must be UTF-8. */
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

  /** Skips the value of the current field. */
  skip(depth = 0): void {
    const wire = this.tag & 7;
    if (wire === VARINT) this.uint();
    else if (wire === LENGTH) this.take(this.uint());
    else if (wire === GROUP) this.skipGroup(tag(this.tag >>> 3, GROUP_END), depth + 1);
    else this.take(wire === FIXED64 ? 8 : 4);
  }

  private skipGroup(groupEnd: number, depth: number): void {
    if (depth > MAX_DEPTH) throw new ProtobufError(`more than ${MAX_DEPTH} nested groups`);
    for (;;) {
      if (!this.next(groupEnd)) truncated();
      if (this.tag === groupEnd) return;
      this.skip(depth);
    }
  }

  private byte(): number {
    return this.at < this.end ? this.bytes[this.at++]! : truncated();
  }

  private take(length: number): number {
    const { at } = this;
    if (length > this.end - at) truncated();
    this.at = at + length;
    return at;
  }
}

/** Up to this length, decoding in JavaScript is faster than TextDecoder. */
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
