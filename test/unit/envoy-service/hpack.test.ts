/** Headers of HTTP/2 are read as RFC 7541 has them; what is wrong is said, and nothing else happens. */
import { assert, property, uint8Array } from "fast-check";
import { describe, expect, it } from "vitest";
import { HpackDecoder, HpackError, headerBlock } from "../../../src/envoy-service/grpc/http2/hpack.js";
import { huffmanText } from "../../../src/envoy-service/grpc/http2/huffman.js";

const hex = (text: string) => Buffer.from(text.replaceAll(" ", ""), "hex");
function decoded(decoder: HpackDecoder, block: Buffer): string[] {
  const fields: string[] = [];
  decoder.decode(block, (name, value) => fields.push(`${name}: ${value}`));
  return fields;
}
const first = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];

describe("the decoder", () => {
  it.each([
    ["plain", "828684410f7777772e6578616d706c652e636f6d", "828684be58086e6f2d6361636865"],
    ["Huffman", "828684418cf1e3c2e5f23a6ba0ab90f4ff", "828684be5886a8eb10649cbf"],
  ])("reads the RFC's requests, %s, and remembers from one to the next", (_how, one, two) => {
    const decoder = new HpackDecoder();
    expect(decoded(decoder, hex(one))).toEqual(first);
    expect(decoded(decoder, hex(two))).toEqual([...first, "cache-control: no-cache"]);
  });

  it("reads long texts again and again, and others between them", () => {
    const decoder = new HpackDecoder();
    const blocks = ["a", "b", "a", "a", "b"].map((letter) => headerBlock({ ":path": letter.repeat(40) }));
    for (const [i, block] of blocks.entries()) {
      expect(decoded(decoder, block)).toEqual([`:path: ${"abaab"[i]!.repeat(40)}`]);
    }
  });

  it("reads a custom field, by name and then by number", () => {
    const decoder = new HpackDecoder();
    expect(decoded(decoder, hex("4088 25a849e95ba97d7f 89 25a849e95bb8e8b4bf"))).toEqual(["custom-key: custom-value"]);
    expect(decoded(decoder, hex("be"))).toEqual(["custom-key: custom-value"]);
  });

  it("forgets the oldest when the table is full or made smaller", () => {
    const decoder = new HpackDecoder();
    decoded(decoder, hex("40 0161 0162 40 0163 0164"));
    expect(decoded(decoder, hex("be bf"))).toEqual(["c: d", "a: b"]);
    // 34 bytes each: room for one.
    expect(decoded(decoder, hex("3f09 be"))).toEqual(["c: d"]);
    expect(() => decoded(decoder, hex("bf"))).toThrow(HpackError);
    expect(decoded(decoder, hex("20 82"))).toEqual([":method: GET"]);
    expect(() => decoded(decoder, hex("be"))).toThrow(HpackError);
  });

  it.each([
    ["an entry that is not there", "be"],
    ["entry 0", "80"],
    ["a text that is longer than the block", "00 0561"],
    ["a number without an end", "ffffffff"],
    ["a number that is too large", "ffffffffffffff7f"],
    ["a table that is made too large", "3fe17f"],
    ["a table that changes in the middle", "82 20"],
    ["a Huffman code with a wrong rest", "00 8100 00"],
    ["a Huffman code with the end in it", "00 84ffffffff 00"],
  ])("refuses %s", (_what, block) => {
    expect(() => decoded(new HpackDecoder(), hex(block))).toThrow(HpackError);
  });

  it("refuses headers that would grow without bound", () => {
    const decoder = new HpackDecoder();
    decoded(decoder, Buffer.concat([hex("40 0161 7fa11e"), Buffer.alloc(4_000, 0x62)]));
    expect(() => decoded(decoder, Buffer.alloc(17, 0xbe))).toThrow(HpackError);
  });

  it("reads what is written, and anything else or refuses it", () => {
    const headers = { ":status": "200", "content-type": "application/grpc", long: "x".repeat(70_000 / 2), empty: "" };
    expect(decoded(new HpackDecoder(), headerBlock(headers))).toEqual(
      Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    );
    assert(
      property(uint8Array({ maxLength: 60 }), (block) => {
        try {
          decoded(new HpackDecoder(), Buffer.from(block));
        } catch (error) {
          expect(error).toBeInstanceOf(HpackError);
        }
      }),
      { numRuns: 3_000 },
    );
  });
});

it("every byte has its Huffman code", () => {
  // From the RFC: the shortest, some of the middle, and the longest.
  const codes: [string, string][] = [
    ["07", "0"],
    ["1f", "a"],
    ["fe3f", "!"],
    ["fffffff3", "\n"],
    ["ffffea", "\t"],
  ];
  for (const [code, text] of codes) expect([code, huffmanText(hex(code), 0, code.length / 2)]).toEqual([code, text]);
});
