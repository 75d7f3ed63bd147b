/** The lines of a log, from a file or a stream, plain or gzipped, in pieces: memory does not grow with the log. */
import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import { createGunzip } from "node:zlib";

export const STDIN = "-";
const PIECE_BYTES = 256 * 1024;
/** Longer lines are none: they are cut off here, and found to be wrong by whoever reads them. */
const LONGEST_LINE = 64 * 1024;
const NEWLINE = 0x0a;

export interface LogSource {
  /** A path, or STDIN. */
  name: string;
  stdin: AsyncIterable<Buffer>;
  /** Told of every piece that was read, as it lies in the file. */
  onBytes?: (bytes: number) => void;
}

/** Some lines at a time. */
export async function* linesOf(source: LogSource): AsyncGenerator<string[]> {
  const bytes = source.name === STDIN ? source.stdin : createReadStream(source.name, { highWaterMark: PIECE_BYTES });
  let carry: Buffer = Buffer.alloc(0);
  let first = true;
  for await (const piece of unzipped(counted(bytes, source.onBytes))) {
    const last = piece.lastIndexOf(NEWLINE);
    if (last < 0) {
      carry = Buffer.concat([carry, piece]).subarray(0, LONGEST_LINE);
      continue;
    }
    const text = Buffer.concat([carry, piece.subarray(0, last)]).toString("utf8");
    carry = Buffer.from(piece.subarray(last + 1)).subarray(0, LONGEST_LINE);
    const lines = text.split("\n");
    if (first) lines[0] = lines[0]!.replace(/^\ufeff/, "");
    first = false;
    yield lines;
  }
  if (carry.length > 0) yield [carry.toString("utf8").replace(first ? /^\ufeff/ : /^$/, "")];
}

async function* counted(bytes: AsyncIterable<Buffer>, onBytes: LogSource["onBytes"]): AsyncGenerator<Buffer> {
  for await (const piece of bytes) {
    onBytes?.(piece.length);
    yield piece;
  }
}

/** By its first two bytes, not by its name: stdin has none. */
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
  const gunzip = createGunzip({ chunkSize: PIECE_BYTES });
  const zipped = Readable.from(all());
  zipped.on("error", (error) => gunzip.destroy(error));
  yield* zipped.pipe(gunzip) as AsyncIterable<Buffer>;
}
