/** The Huffman code of HPACK (RFC 7541, appendix B): the text that some bytes stand for. */

/** The length of each byte's code: `a` is 5 bits, `z` is 30. The codes follow from the lengths. The last is the end. */
const LENGTHS =
  "isxxxxxxxtzxxzxxxxxxxxzxxxxxxxxxbffhibdgffdgdbbbaaabbbbbbbcdkbhfibccccccccccccccccccccccdcdioijbkabababbbaccbbbabcbaabccc" +
  "cckgjixprpprrrsrssssststtrstssssqrsrsstrqprrssqsrrtqrssqqrqsrssprrrsrrsvvporsruvvvwwvtuoqvwwvwtqqvvxwwwptpqrqqsrruuttvsvw" +
  "vvwwwwwxwwwwwvz";
const END = 256;
const SHORTEST = 5;

/** Two places for each node, for the bits 0 and 1: the next node's, or a byte as its complement. */
const tree = grow();

function grow(): Int16Array {
  const lengths = [...LENGTHS].map((letter) => letter.charCodeAt(0) - 97 + SHORTEST);
  const order = lengths.map((_length, byte) => byte).sort((a, b) => lengths[a]! - lengths[b]! || a - b);
  const places = new Int16Array(2 * 512);
  let used = 2;
  let code = 0;
  let before = 0;
  for (const byte of order) {
    const length = lengths[byte]!;
    // Below 2^30: no bit is lost.
    code <<= length - before;
    before = length;
    let at = 0;
    for (let bit = length - 1; bit > 0; bit--) {
      const place = at + ((code >>> bit) & 1);
      if (places[place] === 0) {
        places[place] = used;
        used += 2;
      }
      at = places[place]!;
    }
    places[at + (code & 1)] = ~byte;
    code++;
  }
  return places;
}

/** Undefined where the bytes stand for nothing: a code that is none, the end in the middle, or a wrong rest. */
export function huffmanText(bytes: Buffer, start: number, end: number): string | undefined {
  let text = "";
  let at = 0;
  /** Bits since the last whole code, and whether all of them were 1. */
  let rest = 0;
  let ones = true;
  for (let i = start; i < end; i++) {
    const byte = bytes[i]!;
    for (let bit = 7; bit >= 0; bit--) {
      const value = (byte >>> bit) & 1;
      const next = tree[at + value]!;
      if (next >= 0) {
        at = next;
        rest++;
        ones &&= value === 1;
        continue;
      }
      if (~next === END) return undefined;
      text += String.fromCharCode(~next);
      at = 0;
      rest = 0;
      ones = true;
    }
  }
  return rest < 8 && ones ? text : undefined;
}
