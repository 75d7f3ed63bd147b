/** Reads the lines of a log from a file or stdin, plain or gzipped, with bounded memory. */
import { createReadStream } from "node:fs";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";

export const STDIN = "-";
const CHUNK_BYTES = 256 * 1024;
/** Longer lines are truncated; the parser rejects them. */
const MAX_LINE = 64 * 1024;
const NEWLINE = 0x0a;

export interface LogSource {
  /** A path, or STDIN. */
  name: string;
  stdin: AsyncIterable<Buffer>;
  /** Called with the size of every chunk read, before decompression. */
  onBytes?: (bytes: number) => void;
}

/** Yields several lines at a time. */
export async function* linesOf({ name, stdin, onBytes }: LogSource): AsyncGenerator<string[]> {
  const bytes = name === STDIN ? stdin : createReadStream(name, { highWaterMark: CHUNK_BYTES });
  // Removes a byte order mark.
  const utf8 = new TextDecoder();
  let carry: Buffer = Buffer.alloc(0);
  for await (const chunk of unzipped(counted(bytes, onBytes))) {
    const last = chunk.lastIndexOf(NEWLINE);
    if (last < 0) {
      carry = Buffer.concat([carry, chunk]).subarray(0, MAX_LINE);
      continue;
    }
    yield utf8.decode(Buffer.concat([carry, chunk.subarray(0, last)])).split("\n");
    carry = Buffer.from(chunk.subarray(last + 1)).subarray(0, MAX_LINE);
  }
  if (carry.length > 0) yield [utf8.decode(carry)];
}

async function* counted(bytes: AsyncIterable<Buffer>, onBytes: LogSource["onBytes"]): AsyncGenerator<Buffer> {
  for await (const chunk of bytes) {
    onBytes?.(chunk.length);
    yield chunk;
  }
}

/** Detects gzip by its first two bytes, because stdin has no name. */
async function* unzipped(bytes: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  let head: Buffer = Buffer.alloc(0);
  while (head.length < 2) {
    const { value, done } = await bytes.next();
    if (done) break;
    head = Buffer.concat([head, value]);
  }
  async function* all(): AsyncGenerator<Buffer> {
    yield head;
    yield* bytes;
  }
  const isGzip = head[0] === 0x1f && head[1] === 0x8b;
  // An error of reading destroys the decompressor, so the loop over its output ends with it.
  yield* isGzip ? pipeline(all, createGunzip({ chunkSize: CHUNK_BYTES }), () => undefined) : all();
}
