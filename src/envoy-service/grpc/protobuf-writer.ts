/** Writes messages of Protocol Buffers as proto3 wants them, without knowing their schemas. */
import { FIXED64, LENGTH, tag, VARINT } from "./protobuf.js";

/** Longer texts are faster written by the runtime. */
const SHORT = 24;

/** Writes into a buffer of its own, which grows; `finish` copies what was written and begins anew. */
export class Writer {
  private buffer = Buffer.allocUnsafe(1_024);
  private at = 0;

  /** Nothing is written for 0, as proto3 wants it. */
  uint(field: number, value: number): this {
    return value === 0 ? this : this.givenUint(field, value);
  }

  /** Written even if 0: one of several kinds. */
  givenUint(field: number, value: number): this {
    return this.tagged(field, VARINT).varint(value);
  }

  /** Nothing is written for false. */
  bool(field: number, value: boolean): this {
    return this.uint(field, value ? 1 : 0);
  }

  double(field: number, value: number): this {
    this.tagged(field, FIXED64).room(8);
    this.at = this.buffer.writeDoubleLE(value, this.at);
    return this;
  }

  /** Nothing is written for the empty text. */
  text(field: number, value: string): this {
    return value === "" ? this : this.givenText(field, value);
  }

  /** Written even if empty: an element of a list, or one of several kinds. */
  givenText(field: number, value: string): this {
    const mark = this.open(field);
    this.room(value.length * 3);
    if (value.length > SHORT) this.at += this.buffer.write(value, this.at);
    else this.at = this.shortText(value);
    return this.close(mark);
  }

  bytes(field: number, value: Uint8Array): this {
    this.tagged(field, LENGTH).varint(value.length).room(value.length);
    this.buffer.set(value, this.at);
    this.at += value.length;
    return this;
  }

  /** Begins a message within this one; `close` gets what this returns. */
  open(field: number): number {
    this.tagged(field, LENGTH).room(1);
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
    this.room(more);
    this.buffer.copyWithin(mark + 1 + more, mark + 1, at);
    this.at = mark;
    this.varint(length);
    this.at = at + more;
    return this;
  }

  /** The message, with so many free bytes before it. */
  finish(before = 0): Buffer {
    const message = Buffer.allocUnsafe(before + this.at);
    this.buffer.copy(message, before, 0, this.at);
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
    this.room(10);
    let rest = value;
    while (rest >= 0x80) {
      this.buffer[this.at++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.buffer[this.at++] = rest;
    return this;
  }

  private room(bytes: number): void {
    if (this.at + bytes <= this.buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.buffer.length * 2, this.at + bytes));
    this.buffer.copy(larger, 0, 0, this.at);
    this.buffer = larger;
  }
}
