/** Writes DER, the binary form of certificates: only the types that a certificate needs. */

const SEQUENCE = 0x30;
const SET = 0x31;

export function tagged(tag: number, ...parts: Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag]), lengthOf(content.length), content]);
}

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.from([length]);
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest >>= 8) bytes.unshift(rest & 0xff);
  return Buffer.from([0x80 | bytes.length, ...bytes]);
}

export const sequence = (...parts: Uint8Array[]) => tagged(SEQUENCE, ...parts);
export const set = (...parts: Uint8Array[]) => tagged(SET, ...parts);
export const octets = (bytes: Uint8Array) => tagged(0x04, bytes);
export const utf8 = (text: string) => tagged(0x0c, Buffer.from(text));
export const yes = () => tagged(0x01, Buffer.from([0xff]));
/** @param unused bits at the end that do not count */
export const bits = (bytes: Uint8Array, unused = 0) => tagged(0x03, Buffer.from([unused]), bytes);
/** @param number of the context-specific tag */
export const explicit = (number: number, ...parts: Uint8Array[]) => tagged(0xa0 | number, ...parts);
export const implicit = (number: number, bytes: Uint8Array) => tagged(0x80 | number, bytes);

/** A positive integer, most significant byte first. */
export function integer(bytes: Uint8Array): Buffer {
  const isNegative = (bytes[0] ?? 0) >= 0x80;
  return tagged(0x02, isNegative ? Buffer.from([0, ...bytes]) : bytes);
}

export function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  const bytes = [first * 40 + second];
  for (const number of rest) {
    const groups = [number & 0x7f];
    for (let left = Math.floor(number / 128); left > 0; left = Math.floor(left / 128)) {
      groups.unshift((left & 0x7f) | 0x80);
    }
    bytes.push(...groups);
  }
  return tagged(0x06, Buffer.from(bytes));
}

/** Until 2049 with two digits for the year, as RFC 5280 requires. */
export function time(at: Date): Buffer {
  const digits = `${at.toISOString().slice(0, 19).replace(/[-:T]/g, "")}Z`;
  return at.getUTCFullYear() < 2050 ? tagged(0x17, Buffer.from(digits.slice(2))) : tagged(0x18, Buffer.from(digits));
}
