/** HPACK (RFC 7541): a decoder for the headers of one connection, and header blocks that need no state. */
import { huffmanText } from "./huffman.js";

/** The connection cannot go on: both sides do not mean the same any more. */
export class HpackError extends Error {}

interface Field {
  name: string;
  value: string;
}

const STATIC = `:authority
:method GET
:method POST
:path /
:path /index.html
:scheme http
:scheme https
:status 200
:status 204
:status 206
:status 304
:status 400
:status 404
:status 500
accept-charset
accept-encoding gzip, deflate
accept-language
accept-ranges
accept
access-control-allow-origin
age
allow
authorization
cache-control
content-disposition
content-encoding
content-language
content-length
content-location
content-range
content-type
cookie
date
etag
expect
expires
from
host
if-match
if-modified-since
if-none-match
if-range
if-unmodified-since
last-modified
link
location
max-forwards
proxy-authenticate
proxy-authorization
range
referer
refresh
retry-after
server
set-cookie
strict-transport-security
transfer-encoding
user-agent
vary
via
www-authenticate`
  .split("\n")
  .map((line): Field => {
    const space = line.indexOf(" ");
    return space < 0 ? { name: line, value: "" } : { name: line.slice(0, space), value: line.slice(space + 1) };
  });

/** As HTTP/2 has it where nobody says otherwise; and nobody does. */
const TABLE_BYTES = 4_096;
/** What a field counts besides its characters. */
const FIELD_BYTES = 32;
/** Of a block, as its reader would have to hold it. */
export const MOST_LIST_BYTES = 65_536;

/** Texts below this length are faster decoded than compared. */
const SHORT = 8;
/** So many texts are remembered, by their lengths; twice, for both codings. */
const PLACES = 16;

export class HpackDecoder {
  /** The oldest first. */
  private table: Field[] = [];
  private bytes = 0;
  private most = TABLE_BYTES;
  private readonly texts: ({ bytes: Buffer; text: string } | undefined)[] = Array(2 * PLACES).fill(undefined);
  private block: Buffer = Buffer.alloc(0);
  private at = 0;

  /** Throws an HpackError. */
  decode(block: Buffer, took: (name: string, value: string) => void): void {
    this.block = block;
    this.at = 0;
    let listBytes = 0;
    while (this.at < block.length) {
      const first = block[this.at]!;
      if ((first & 0xe0) === 0x20) {
        if (listBytes > 0) throw new HpackError("the table changes its size within a block");
        this.resize(this.whole(5));
        continue;
      }
      const field = this.field(first);
      listBytes += field.name.length + field.value.length + FIELD_BYTES;
      if (listBytes > MOST_LIST_BYTES) throw new HpackError("the headers are too large");
      took(field.name, field.value);
    }
  }

  private field(first: number): Field {
    if (first >= 0x80) return this.known(this.whole(7));
    const kept = first >= 0x40;
    const index = this.whole(kept ? 6 : 4);
    const name = index === 0 ? this.text() : this.known(index).name;
    const field = { name, value: this.text() };
    if (kept) this.keep(field);
    return field;
  }

  private known(index: number): Field {
    const field = index <= STATIC.length ? STATIC[index - 1] : this.table[this.table.length - (index - STATIC.length)];
    if (field === undefined) throw new HpackError("there is no such entry in the table");
    return field;
  }

  private keep(field: Field): void {
    this.table.push(field);
    this.bytes += field.name.length + field.value.length + FIELD_BYTES;
    this.evict();
  }

  private evict(): void {
    let gone = 0;
    while (this.bytes > this.most) {
      const { name, value } = this.table[gone++]!;
      this.bytes -= name.length + value.length + FIELD_BYTES;
    }
    if (gone > 0) this.table.splice(0, gone);
  }

  private resize(most: number): void {
    if (most > TABLE_BYTES) throw new HpackError("the table is made larger than agreed");
    this.most = most;
    this.evict();
  }

  /** A number whose first part is in the lower bits of the current byte. */
  private whole(bits: number): number {
    const mask = (1 << bits) - 1;
    let value = this.byte() & mask;
    if (value < mask) return value;
    for (let shift = 0; shift <= 21; shift += 7) {
      const byte = this.byte();
      value += (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw new HpackError("a number is too large");
  }

  private text(): string {
    const coded = (this.block[this.at] ?? 0) >= 0x80;
    const length = this.whole(7);
    const start = this.at;
    this.at += length;
    if (this.at > this.block.length) throw new HpackError("a block ends within a text");
    return length < SHORT ? this.decoded(coded, start) : this.remembered(coded, start, length);
  }

  /** Encoders send some texts anew with each request, such as the path, and they are the same each time. */
  private remembered(coded: boolean, start: number, length: number): string {
    const place = (length % PLACES) * 2 + (coded ? 1 : 0);
    const before = this.texts[place];
    if (before?.bytes.length === length && this.block.compare(before.bytes, 0, length, start, this.at) === 0) {
      return before.text;
    }
    const text = this.decoded(coded, start);
    this.texts[place] = { bytes: Buffer.from(this.block.subarray(start, this.at)), text };
    return text;
  }

  private decoded(coded: boolean, start: number): string {
    const text = coded ? huffmanText(this.block, start, this.at) : this.block.toString("latin1", start, this.at);
    if (text === undefined) throw new HpackError("a text is no Huffman code");
    return text;
  }

  private byte(): number {
    if (this.at >= this.block.length) throw new HpackError("a block ends within a field");
    return this.block[this.at++]!;
  }
}

/** A block that every decoder reads the same, and that changes nothing in it: may be sent as often as wanted. */
export function headerBlock(headers: Record<string, string>): Buffer {
  const parts: Buffer[] = [];
  for (const [name, value] of Object.entries(headers)) {
    const index = STATIC.findIndex((field) => field.name === name && field.value === value);
    if (index >= 0) parts.push(Buffer.from([0x80 | (index + 1)]));
    else parts.push(Buffer.from([0]), plainText(name), plainText(value));
  }
  return Buffer.concat(parts);
}

function plainText(text: string): Buffer {
  const bytes = Buffer.from(text, "latin1");
  const length: number[] = [];
  if (bytes.length < 0x7f) length.push(bytes.length);
  else {
    length.push(0x7f);
    let rest = bytes.length - 0x7f;
    for (; rest >= 0x80; rest >>>= 7) length.push((rest & 0x7f) | 0x80);
    length.push(rest);
  }
  return Buffer.concat([Buffer.from(length), bytes]);
}
