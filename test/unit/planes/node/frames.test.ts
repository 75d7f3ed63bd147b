/** Where frames end is known however the bytes are cut; and the close frames that the proxy says can be read. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { closeFrame, FrameTracker, GOING_AWAY, TRY_AGAIN_LATER } from "../../../../src/planes/node/upgrade/frames.js";

interface Frame {
  opcode: number;
  fin: boolean;
  masked: boolean;
  length: number;
}

/** Payloads are full of what looks like headers. */
function bytesOf({ opcode, fin, masked, length }: Frame): Buffer {
  const header = [(fin ? 0x80 : 0) | opcode];
  const mask = masked ? 0x80 : 0;
  if (length < 126) header.push(mask | length);
  else if (length < 65_536) header.push(mask | 126, length >> 8, length & 255);
  else {
    const long = Buffer.alloc(8);
    long.writeBigUInt64BE(BigInt(length));
    header.push(mask | 127, ...long);
  }
  return Buffer.concat([Buffer.from(header), Buffer.alloc(masked ? 4 : 0, 0x88), Buffer.alloc(length, 0x88)]);
}

const frame = fc.record({
  opcode: fc.constantFrom(0, 1, 2, 9, 10),
  fin: fc.boolean(),
  masked: fc.boolean(),
  length: fc.oneof(fc.constantFrom(0, 1, 125, 126, 127, 65_535, 65_536, 70_000), fc.integer({ min: 0, max: 300 }), {
    arbitrary: fc.constant(1_048_576),
    weight: 1,
  }),
});

describe("the end of a frame", () => {
  it("is known for all kinds of frames, however their bytes are cut", () => {
    fc.assert(
      fc.property(
        fc.array(frame, { minLength: 1, maxLength: 12 }),
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 40 }),
        fc.boolean(),
        (frames, fractions, nearEnds) => {
          const parts = frames.map(bytesOf);
          const all = Buffer.concat(parts);
          const ends: number[] = [];
          for (const part of parts) ends.push((ends.at(-1) ?? 0) + part.length);
          // Cuts around the ends of frames are those that matter.
          const cuts = fractions.map((fraction) => {
            const near = ends[Math.floor(fraction * (ends.length - 1))]!;
            return nearEnds
              ? Math.min(near + Math.floor(fraction * 16), all.length)
              : Math.floor(fraction * all.length);
          });
          const places = [...new Set([...cuts, all.length])].sort((a, b) => a - b);
          const tracker = new FrameTracker();
          let from = 0;
          for (const to of places) {
            const last = ends.filter((end) => end > from && end <= to).at(-1);
            expect(tracker.pass(all.subarray(from, to))).toBe(last === undefined ? -1 : last - from);
            expect(tracker.betweenFrames).toBe(to === 0 || ends.includes(to));
            from = to;
          }
          expect(tracker.closeSeen).toBe(false);
        },
      ),
      { numRuns: 300 },
    );
  });

  it("is known byte by byte, too, and close frames are noticed", () => {
    const tracker = new FrameTracker();
    const message = bytesOf({ opcode: 2, fin: true, masked: true, length: 300 });
    for (const [at, byte] of message.entries()) {
      expect(tracker.betweenFrames).toBe(at === 0);
      expect(tracker.pass(Buffer.from([byte]))).toBe(at === message.length - 1 ? 1 : -1);
    }
    expect(tracker.closeSeen).toBe(false);
    tracker.pass(bytesOf({ opcode: 8, fin: true, masked: true, length: 0 }));
    expect(tracker.closeSeen).toBe(true);
    expect(tracker.betweenFrames).toBe(true);
  });
});

describe("a close frame", () => {
  it.each([
    [GOING_AWAY, false],
    [GOING_AWAY, true],
    [TRY_AGAIN_LATER, false],
    [TRY_AGAIN_LATER, true],
  ])("has its code and a reason: %i, masked: %s", (code, masked) => {
    const bytes = closeFrame(code, masked);
    const tracker = new FrameTracker();
    expect(tracker.pass(bytes)).toBe(bytes.length);
    expect(tracker.closeSeen).toBe(true);
    expect(bytes[1]! >> 7).toBe(masked ? 1 : 0);
    const payload = Buffer.from(bytes.subarray(masked ? 6 : 2));
    for (const [at, byte] of payload.entries()) payload[at] = byte ^ (masked ? bytes[2 + (at % 4)]! : 0);
    expect(payload.readUInt16BE(0)).toBe(code);
    expect(payload.subarray(2).toString()).toMatch(/^[a-z ]+$/);
  });
});
