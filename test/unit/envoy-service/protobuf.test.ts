/** Protocol Buffers: any bytes are read or rejected, and written messages are read back. */
import { array, assert, constantFrom, double, integer, oneof, property, string, uint8Array } from "fast-check";
import { describe, expect, it } from "vitest";
import {
  FIXED32,
  FIXED64,
  LENGTH,
  ProtobufError,
  Reader,
  tag,
  VARINT,
} from "../../../src/envoy-service/grpc/protobuf.js";
import { Writer } from "../../../src/envoy-service/grpc/protobuf-writer.js";
import { GrpcError } from "../../../src/envoy-service/grpc/status.js";
import { readRequest } from "../../../src/envoy-service/rate-limit/request.js";

const bytes = (...values: number[]) => Uint8Array.from(values);
const begun = (message: Uint8Array) => {
  const reader = new Reader(message);
  expect(reader.next()).toBe(true);
  return reader;
};

describe("the reader", () => {
  it.each([
    [[0x08, 0x00], 0],
    [[0x08, 0x7f], 127],
    [[0x08, 0x96, 0x01], 150],
    [[0x08, 0xff, 0xff, 0xff, 0xff, 0x0f], 4_294_967_295],
    [[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f], Number.MAX_SAFE_INTEGER],
    [[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10], Number.MAX_SAFE_INTEGER],
    [[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Number.MAX_SAFE_INTEGER],
  ])("reads %j as %d; numbers above 2^53 - 1 as 2^53 - 1", (message, value) => {
    expect(begun(Uint8Array.from(message)).uint()).toBe(value);
  });

  it("reads the lower 32 bits of larger numbers", () => {
    expect(begun(bytes(0x08, 0x81, 0x80, 0x80, 0x80, 0x10)).uint32()).toBe(1);
    const minusOne = bytes(0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
    expect(begun(minusOne).uint32()).toBe(0xffff_ffff);
  });

  it("skips unknown fields, including nested groups", () => {
    const reader = new Reader(
      bytes(
        0x0b,
        0x13,
        0x08,
        0x01,
        0x14,
        0x12,
        0x01,
        0x61,
        0x0c,
        0x15,
        1,
        2,
        3,
        4,
        0x19,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        0x20,
        0x05,
      ),
    );
    const tags: number[] = [];
    let last = 0;
    while (reader.next()) {
      tags.push(reader.tag);
      if (reader.tag === tag(4, VARINT)) last = reader.uint();
      else reader.skip();
    }
    expect(tags).toEqual([tag(1, 3), tag(2, FIXED32), tag(3, FIXED64), tag(4, VARINT)]);
    expect(last).toBe(5);
  });

  it.each([
    ["a number without an end", bytes(0x08, 0x80)],
    ["a number of eleven bytes", bytes(0x08, ...Array<number>(10).fill(0xff), 0x01)],
    ["a text that is longer than the message", bytes(0x0a, 0x05, 0x61)],
    ["a length beyond the message", bytes(0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)],
    ["four of eight bytes", bytes(0x09, 1, 2, 3, 4)],
    ["field number 0", bytes(0x00, 0x01)],
    ["a wire type that does not exist", bytes(0x0e, 0x01)],
    ["the end of a group that was not started", bytes(0x0c)],
    ["a group that does not end", bytes(0x0b, 0x10, 0x01)],
    ["a group that ends as another", bytes(0x0b, 0x14)],
    ["a tag of more than 32 bits", bytes(0xfa, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00)],
    ["groups without end", Uint8Array.from({ length: 100_000 }, () => 0x0b)],
  ])("rejects %s", (_what, message) => {
    expect(() => {
      const reader = new Reader(message);
      while (reader.next()) reader.skip();
    }).toThrow(ProtobufError);
  });

  it("rejects texts that are not UTF-8, short or long", () => {
    const long = Array<number>(40).fill(0x61);
    for (const text of [[0xff], [0xc3], [...long, 0xc3], [0xed, 0xa0, 0x80]]) {
      expect(() => begun(bytes(0x0a, text.length, ...text)).text()).toThrow(ProtobufError);
    }
  });

  it("a known field with another wire type is skipped", () => {
    const good = new Writer().text(1, "tollgate").finish();
    expect(() => readRequest(good)).toThrow("descriptors must not be empty");
    expect(() => readRequest(bytes(tag(1, VARINT), 5))).toThrow("domain must not be empty");
    expect(() => readRequest(Buffer.concat([good, bytes(tag(2, FIXED32), 1, 2, 3, 4)]))).toThrow(
      "descriptors must not",
    );
  });

  it("any bytes are a request or rejected with a reason", () => {
    assert(
      property(uint8Array({ maxLength: 200 }), (message) => {
        try {
          readRequest(message);
        } catch (error) {
          expect(error instanceof ProtobufError || error instanceof GrpcError).toBe(true);
        }
      }),
      { numRuns: 5_000 },
    );
  });

  it("a request with a changed byte, or truncated, is a request or rejected with a reason", () => {
    const writer = new Writer();
    const descriptor = writer.text(1, "tollgate").open(2);
    const entry = writer.open(1);
    writer.text(1, "app_id").text(2, "vidéo").close(entry).close(descriptor);
    const good = writer.uint(3, 7).finish();
    expect(readRequest(good)).toEqual({
      domain: "tollgate",
      descriptors: [{ entries: [{ key: "app_id", value: "vidéo" }] }],
      hits: 7,
      hitsAddend: 7,
    });
    const places = integer({ min: 0, max: good.length - 1 });
    assert(
      property(places, integer({ min: 0, max: 255 }), places, (at, value, cut) => {
        const changed = Buffer.from(good);
        changed[at] = value;
        for (const message of [changed, changed.subarray(0, cut)]) {
          try {
            readRequest(message);
          } catch (error) {
            expect(error instanceof ProtobufError || error instanceof GrpcError).toBe(true);
          }
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("the writer", () => {
  it("writes messages of any size that the reader reads", () => {
    const whole = integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
    const odd = constantFrom("ü".repeat(9), "é".repeat(200), "😀", "\0", "x".repeat(20_000), "a\u0800");
    const text = oneof(string({ maxLength: 200 }), odd);
    assert(
      property(array(text, { maxLength: 6 }), whole, double({ noNaN: true }), (texts, number, fraction) => {
        const writer = new Writer();
        const inner = writer.open(5);
        for (const one of texts) writer.explicitText(1, one);
        writer.close(inner).explicitUint(2, number).double(3, fraction);
        const reader = new Reader(writer.finish());
        const read: string[] = [];
        expect(reader.next() && reader.tag).toBe(tag(5, LENGTH));
        const nested = reader.message();
        while (nested.next()) read.push(nested.text());
        expect(read).toEqual(texts);
        expect(reader.next() && reader.uint()).toBe(number);
        expect(reader.next() && reader.double()).toBe(fraction);
        expect(reader.next()).toBe(false);
      }),
      { numRuns: 30 },
    );
  });

  it("omits default values, and resets after each message", () => {
    const writer = new Writer();
    expect(writer.uint(1, 0).text(2, "").finish()).toHaveLength(0);
    expect([...writer.uint(1, 1).finish()]).toEqual([0x08, 0x01]);
    expect([...writer.uint(1, 1).finish()]).toEqual([0x08, 0x01]);
  });
});
