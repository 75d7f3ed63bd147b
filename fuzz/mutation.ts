/** Changes an input at random, repeatably: the same seed gives the same inputs. */
import { createRandom } from "../test/support/random.js";
import type { FuzzTarget } from "./target.js";

/** Other words are bytes. */
const IS_UNICODE = /[\u0100-\uffff]/;
const EDGES = [0, 1, 0x7f, 0x80, 0xff];
const MOST_CHANGES = 6;
const LONGEST_REPEAT = 4_096;

export function createMutator(
  { seeds, words, maxBytes }: Pick<FuzzTarget, "seeds" | "words" | "maxBytes">,
  seed: number,
) {
  const random = createRandom(seed);
  const inserts = words.map((word) => Buffer.from(word, IS_UNICODE.test(word) ? "utf8" : "latin1"));
  const below = (n: number) => Math.floor(random() * n);
  const any = <T>(list: readonly T[]): T => list[below(list.length)]!;

  /** A range of the input, short ones more often. */
  function range(bytes: Buffer): [number, number] {
    const from = below(bytes.length + 1);
    return [from, Math.min(from + below(2 ** below(12)), bytes.length)];
  }

  function replaced(bytes: Buffer, [from, to]: [number, number], by: Buffer): Buffer {
    return Buffer.concat([bytes.subarray(0, from), by, bytes.subarray(to)]);
  }

  const changes: ((bytes: Buffer) => Buffer)[] = [
    (bytes) => {
      if (bytes.length > 0) bytes[below(bytes.length)]! ^= 1 << below(8);
      return bytes;
    },
    (bytes) => {
      if (bytes.length > 0) bytes[below(bytes.length)] = random() < 0.5 ? any(EDGES) : below(256);
      return bytes;
    },
    (bytes) => replaced(bytes, range(bytes), Buffer.alloc(0)),
    (bytes) => replaced(bytes, [below(bytes.length + 1), bytes.length], Buffer.alloc(0)),
    (bytes) => {
      const at = below(bytes.length + 1);
      return replaced(bytes, [at, at], bytes.subarray(...range(bytes)));
    },
    (bytes) => {
      const at = below(bytes.length + 1);
      return replaced(bytes, [at, at], any(inserts));
    },
    (bytes) => replaced(bytes, range(bytes), any(inserts)),
    (bytes) => {
      const part = random() < 0.5 ? any(inserts) : bytes.subarray(...range(bytes));
      const times = 1 + below(2 ** below(13));
      const at = below(bytes.length + 1);
      return replaced(bytes, [at, at], Buffer.alloc(Math.min(part.length * times, LONGEST_REPEAT * 4), part));
    },
    (bytes) => {
      const other = any(seeds);
      return replaced(bytes, range(bytes), other.subarray(...range(other)));
    },
  ];

  return (): Buffer => {
    let bytes: Buffer = Buffer.from(any(seeds));
    for (let left = 1 + below(MOST_CHANGES); left > 0; left--) bytes = any(changes)(bytes).subarray(0, maxBytes);
    return bytes;
  };
}
