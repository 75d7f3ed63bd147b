/** SHA-1 (FIPS 180-4) in hexadecimal, for a Lua that has no library for it. */
import { luaString } from "../../lua/library.js";

interface Bit {
  band(this: void, a: number, b: number): number;
  bor(this: void, a: number, b: number): number;
  bxor(this: void, a: number, b: number): number;
  lshift(this: void, a: number, by: number): number;
  rol(this: void, a: number, by: number): number;
  tobit(this: void, a: number): number;
  /** Eight lower case digits. */
  tohex(this: void, a: number): string;
}

declare function require(this: void, module: "bit"): Bit;

const luaBit = require("bit");

const BLOCK_BYTES = 64;

/** The text as words of 32 bits, with the padding that the standard wants. */
function paddedWords(text: string): number[] {
  const blocks = Math.floor((text.length + 8) / BLOCK_BYTES) + 1;
  const words: number[] = [];
  for (let at = 0; at < blocks * BLOCK_BYTES; at += 4) {
    let word = 0;
    for (let i = at; i < at + 4; i++) {
      let byte = 0;
      if (i < text.length) byte = luaString.byte(text, i + 1);
      else if (i === text.length) byte = 128;
      word = luaBit.bor(luaBit.lshift(word, 8), byte);
    }
    words.push(word);
  }
  words[words.length - 1] = luaBit.tobit(text.length * 8);
  return words;
}

function mix(round: number, b: number, c: number, d: number): number {
  if (round < 20) return luaBit.bxor(d, luaBit.band(b, luaBit.bxor(c, d)));
  if (round >= 40 && round < 60) return luaBit.bor(luaBit.band(b, c), luaBit.band(d, luaBit.bor(b, c)));
  return luaBit.bxor(luaBit.bxor(b, c), d);
}

function constantOf(round: number): number {
  if (round < 20) return 0x5a827999;
  if (round < 40) return 0x6ed9eba1;
  return round < 60 ? 0x8f1bbcdc : 0xca62c1d6;
}

type Hash = [number, number, number, number, number];

function addBlock(hash: Hash, words: number[], from: number): void {
  const schedule: number[] = [];
  for (let i = 0; i < 80; i++) {
    if (i < 16) schedule.push(words[from + i]!);
    else {
      const early = luaBit.bxor(schedule[i - 3]!, schedule[i - 8]!);
      schedule.push(luaBit.rol(luaBit.bxor(early, luaBit.bxor(schedule[i - 14]!, schedule[i - 16]!)), 1));
    }
  }
  let a = hash[0];
  let b = hash[1];
  let c = hash[2];
  let d = hash[3];
  let e = hash[4];
  for (let i = 0; i < 80; i++) {
    const next = luaBit.tobit(luaBit.rol(a, 5) + mix(i, b, c, d) + e + constantOf(i) + schedule[i]!);
    e = d;
    d = c;
    c = luaBit.rol(b, 30);
    b = a;
    a = next;
  }
  hash[0] = luaBit.tobit(hash[0] + a);
  hash[1] = luaBit.tobit(hash[1] + b);
  hash[2] = luaBit.tobit(hash[2] + c);
  hash[3] = luaBit.tobit(hash[3] + d);
  hash[4] = luaBit.tobit(hash[4] + e);
}

export function sha1Hex(text: string): string {
  const words = paddedWords(text);
  const hash: Hash = [
    0x67452301,
    luaBit.tobit(0xefcdab89),
    luaBit.tobit(0x98badcfe),
    0x10325476,
    luaBit.tobit(0xc3d2e1f0),
  ];
  for (let from = 0; from < words.length; from += 16) addBlock(hash, words, from);
  let digest = "";
  for (const word of hash) digest = digest + luaBit.tohex(word);
  return digest;
}
