/** Reads the lines of a log from a file or stdin, plain or gzipped, with bounded memory. */
import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
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
export async function* linesOf(source: LogSource): AsyncGenerator<string[]> {
  const bytes = source.name === STDIN ? source.stdin : createReadStream(source.name, { highWaterMark: CHUNK_BYTES });
  let carry: Buffer = Buffer.alloc(0);
  let first = true;
  for await (const chunk of unzipped(counted(bytes, source.onBytes))) {
    const last = chunk.lastIndexOf(NEWLINE);
    if (last < 0) {
      carry = Buffer.concat([carry, chunk]).subarray(0, MAX_LINE);
      continue;
    }
    const text = Buffer.concat([carry, chunk.subarray(0, last)]).toString("utf8");
    carry = Buffer.from(chunk.subarray(last + 1)).subarray(0, MAX_LINE);
    const lines = text.split("\n");
    if (first) lines[0] = lines[0]!.replace(/^\ufeff/, "");
    first = false;
    yield lines;
  }
  if (carry.length > 0) yield [carry.toString("utf8").replace(first ? /^\ufeff/ : /^$/, "")];
}

async function* counted(bytes: AsyncIterable<Buffer>, onBytes: LogSource["onBytes"]): AsyncGenerator<Buffer> {
  for await (const chunk of bytes) {
    onBytes?.(chunk.length);
    yield chunk;
  }
}

/** Detects gzip by its first two bytes, because stdin has no name. */
async function* unzipped(bytes: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  const { value, done } = await bytes.next();
  if (done) return;
  let first = value;
  while (first.length < 2) {
    const more = await bytes.next();
    if (more.done) break;
    first = Buffer.concat([first, more.value]);
  }
  async function* all(): AsyncGenerator<Buffer> {
    yield first;
    yield* bytes;
  }
  if (first[0] !== 0x1f || first[1] !== 0x8b) {
    yield* all();
    return;
  }
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES });
  const zipped = Readable.from(all());
  zipped.on("error", (error) => gunzip.destroy(error));
  yield* zipped.pipe(gunzip) as AsyncIterable<Buffer>;
}
