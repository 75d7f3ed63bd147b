/** HTTP/2 frames as bytes, to send what no HTTP/2 client would send. */

export const HEADERS = 1;
export const PRIORITY = 2;
export const RESET = 3;
export const SETTINGS = 4;
export const PING = 6;
export const WINDOW_UPDATE = 8;
export const CONTINUATION = 9;
export const DATA = 0;

export const END_STREAM = 1;
export const ACK = 1;
export const END_HEADERS = 4;

const NOTHING = Buffer.alloc(0);

export function http2Frame(type: number, flags: number, stream: number, payload: Uint8Array = NOTHING): Buffer {
  const head = Buffer.from([payload.length >> 16, payload.length >> 8, payload.length, type, flags, 0, 0, 0, 0]);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** The connection preface and a settings frame with these values by id. */
export function prefaceWith(settings: Record<number, number> = {}): Buffer {
  const entries = Object.entries(settings).map(([id, value]) => {
    const entry = Buffer.alloc(6);
    entry.writeUInt16BE(Number(id));
    entry.writeUInt32BE(value, 2);
    return entry;
  });
  const magic = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  return Buffer.concat([magic, http2Frame(SETTINGS, 0, 0, Buffer.concat(entries))]);
}

/** Literal headers, without indexing and without Huffman coding. */
export function headerBlock(headers: Record<string, string>): Buffer {
  const fields = Object.entries(headers).flatMap(([name, value]) => [
    Buffer.from([0]),
    hpackLength(name.length, 0),
    Buffer.from(name),
    hpackLength(value.length, 0),
    Buffer.from(value),
  ]);
  return Buffer.concat(fields);
}

/** A header whose value is `characters` zeros in Huffman code: five bits each. `characters` must be a multiple of eight. */
export function huffmanHeader(name: string, characters: number): Buffer {
  const bytes = (characters * 5) / 8;
  const head = Buffer.concat([Buffer.from([0]), hpackLength(name.length, 0), Buffer.from(name)]);
  return Buffer.concat([head, hpackLength(bytes, 0x80), Buffer.alloc(bytes)]);
}

/** A header block that stores a header of 4,000 bytes in the compression table and refers to it: one byte for each 4,000. */
export function indexedBomb(block: Buffer, references: number): Buffer {
  const stored = Buffer.concat([Buffer.from([0x40]), hpackLength(1, 0), Buffer.from("x"), hpackLength(4_000, 0)]);
  // 62 is the first entry after the static table.
  return Buffer.concat([block, stored, Buffer.alloc(4_000, "v"), Buffer.alloc(references, 0x80 | 62)]);
}

/** A header block in as many frames as needed. */
export function headersFrames(stream: number, block: Buffer, flags = 0): Buffer {
  const most = 16_384;
  const frames: Buffer[] = [];
  for (let at = 0; at < block.length; at += most) {
    const last = at + most >= block.length ? END_HEADERS : 0;
    const part = block.subarray(at, at + most);
    frames.push(
      at === 0 ? http2Frame(HEADERS, flags | last, stream, part) : http2Frame(CONTINUATION, last, stream, part),
    );
  }
  return Buffer.concat(frames);
}

export function windowUpdate(stream: number, increment: number): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(increment);
  return http2Frame(WINDOW_UPDATE, 0, stream, payload);
}

/** An integer with a prefix of seven bits, after the bit of `flag`. */
function hpackLength(length: number, flag: number): Buffer {
  if (length < 0x7f) return Buffer.from([flag | length]);
  const bytes = [flag | 0x7f];
  let rest = length - 0x7f;
  for (; rest >= 0x80; rest >>= 7) bytes.push((rest & 0x7f) | 0x80);
  bytes.push(rest);
  return Buffer.from(bytes);
}
