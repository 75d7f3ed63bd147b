/** Writes Protocol Buffers (proto3) without a schema. */
import { FIXED64, LENGTH, tag, VARINT } from "./protobuf.js";

/** Up to this length, writing a text in JavaScript is faster than `Buffer.write`. */
const SHORT = 24;

/** Writes to a growing buffer. `finish` returns a copy and resets the writer. */
export class Writer {
  private buffer = Buffer.allocUnsafe(1_024);
  private at = 0;

  /** Omits 0, as proto3 does. */
  uint(field: number, value: number): this {
    return value === 0 ? this : this.explicitUint(field, value);
  }

  /** Also writes 0: for members of a oneof. */
  explicitUint(field: number, value: number): this {
    return this.tagged(field, VARINT).varint(value);
  }

  double(field: number, value: number): this {
    this.tagged(field, FIXED64).reserve(8);
    this.at = this.buffer.writeDoubleLE(value, this.at);
    return this;
  }

  /** Omits the empty text. */
  text(field: number, value: string): this {
    return value === "" ? this : this.explicitText(field, value);
  }

  /** Also writes the empty text: for elements of a list and members of a oneof. */
  explicitText(field: number, value: string): this {
    const mark = this.open(field);
    this.reserve(value.length * 3);
    if (value.length > SHORT) this.at += this.buffer.write(value, this.at);
    else this.at = this.shortText(value);
    return this.close(mark);
  }

  /** Starts a nested message. Pass the result to `close`. */
  open(field: number): number {
    this.tagged(field, LENGTH).reserve(1);
    return this.at++;
  }

  close(mark: number): this {
    const length = this.at - mark - 1;
    if (length < 0x80) {
      this.buffer[mark] = length;
      return this;
    }
    const { at } = this;
    let more = 0;
    for (let rest = length; rest >= 0x80; rest = Math.floor(rest / 0x80)) more++;
    this.reserve(more);
    this.buffer.copyWithin(mark + 1 + more, mark + 1, at);
    this.at = mark;
    this.varint(length);
    this.at = at + more;
    return this;
  }

  finish(): Buffer {
    const message = Buffer.from(this.buffer.subarray(0, this.at));
    this.at = 0;
    return message;
  }

  private shortText(value: string): number {
    const { buffer } = this;
    let { at } = this;
    for (let i = 0; i < value.length; i++) {
      const code = value.charCodeAt(i);
      if (code >= 0x80) return this.at + buffer.write(value, this.at);
      buffer[at++] = code;
    }
    return at;
  }

  private tagged(field: number, wire: number): this {
    return this.varint(tag(field, wire));
  }

  private varint(value: number): this {
    this.reserve(10);
    let rest = value;
    while (rest >= 0x80) {
      this.buffer[this.at++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.buffer[this.at++] = rest;
    return this;
  }

  private reserve(bytes: number): void {
    if (this.at + bytes <= this.buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.buffer.length * 2, this.at + bytes));
    this.buffer.copy(larger, 0, 0, this.at);
    this.buffer = larger;
  }
}
