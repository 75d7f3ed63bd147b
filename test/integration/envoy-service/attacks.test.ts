/** Attacks on the listener for Envoy of a real service process, with budgets for its memory and CPU time. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AttackedService, type Peer, startAttackedService } from "../../support/attacked-service.js";
import {
  ACK,
  DATA,
  END_HEADERS,
  END_STREAM,
  HEADERS,
  headersFrames,
  http2Frame,
  huffmanHeader,
  prefaceWith,
  SETTINGS,
  windowUpdate,
} from "../../support/http2-frames.js";
import { getHead, grpcHead } from "../../support/http2-heads.js";
import { waitFor } from "../../support/wait-for.js";

const INITIAL_WINDOW = 4;
const MIB = 1_048_576;
const acknowledged = http2Frame(SETTINGS, ACK, 0);

let service: AttackedService;
beforeAll(async () => {
  service = await startAttackedService();
});
afterAll(() => service?.stop());

/** Sends `bytes` on `streams` streams in turn, each of them as one DATA frame of 16 KiB at a time. */
async function fill(peer: Peer, streams: number, start: Buffer, bytes: number): Promise<void> {
  const chunk = Buffer.alloc(16_384);
  for (let i = 0; i < streams; i++) await peer.write(http2Frame(DATA, 0, 2 * i + 1, start));
  for (let sent = 0; sent < bytes; sent += chunk.length) {
    for (let i = 0; i < streams; i++) if (!(await peer.write(http2Frame(DATA, 0, 2 * i + 1, chunk)))) return;
  }
}

describe("an attack on the listener for Envoy stays within its budget of memory and CPU time:", () => {
  it.for([
    ["messages", grpcHead, Buffer.from([0, 0, 0x40, 0, 0])],
    ["health check bodies", getHead("/healthcheck"), Buffer.alloc(1)],
  ] as const)("120 streams that announce 4 MiB and never finish (%s)", async ([, head, start]) => {
    const cost = await service.costOf(async () => {
      const peer = await service.openPeer();
      const heads = Array.from({ length: 120 }, (_, i) => http2Frame(HEADERS, END_HEADERS, 2 * i + 1, head));
      await peer.write(Buffer.concat([prefaceWith(), acknowledged, ...heads]));
      await fill(peer, 120, start, 4 * MIB - 32_768);
      return [peer];
    });
    expect(cost.memoryMb).toBeLessThan(200);
    expect(cost.cpuMs).toBeLessThan(6_000);
  });

  it.for([
    ["settings acknowledged", acknowledged],
    ["settings not acknowledged", Buffer.alloc(0)],
  ] as const)("24 MB of Huffman-coded headers of 60 kB (%s)", async ([, acknowledgement]) => {
    const cost = await service.costOf(async () => {
      const peer = await service.openPeer();
      await peer.write(Buffer.concat([prefaceWith(), acknowledgement]));
      const block = Buffer.concat([getHead("/healthcheck"), huffmanHeader("x", 60_000)]);
      for (let sent = 0, stream = 1; sent < 24e6; sent += block.length, stream += 2) {
        if (!(await peer.write(headersFrames(stream, block)))) break;
      }
      return [peer];
    });
    expect(cost.memoryMb).toBeLessThan(150);
    expect(cost.cpuMs).toBeLessThan(6_000);
  });

  it("9,999 blocked streams and window updates", async () => {
    const cost = await service.costOf(async () => {
      const peer = await service.openPeer();
      await peer.write(Buffer.concat([prefaceWith({ [INITIAL_WINDOW]: 0 }), acknowledged]));
      const block = getHead("/healthcheck");
      for (let i = 0; i < 9_999; i += 99) {
        const heads = Array.from({ length: 99 }, (_, k) =>
          http2Frame(HEADERS, END_HEADERS | END_STREAM, 2 * (i + k) + 1, block),
        );
        if (!(await peer.write(Buffer.concat(heads)))) break;
      }
      await peer.write(Buffer.concat(Array.from({ length: 5_000 }, () => windowUpdate(0, 1))));
      return [peer];
    });
    expect(cost.memoryMb).toBeLessThan(150);
    expect(cost.cpuMs).toBeLessThan(6_000);
  });

  it.for([
    ["three bytes of the HTTP/2 preface", "PRI"],
    ["no settings after the HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["no acknowledgement of the settings", prefaceWith().toString("latin1")],
    ["an incomplete HTTP/1.1 header", "GET /health"],
  ] as const)("%s: the connection is closed within seconds", { concurrent: true }, async ([, text]) => {
    const peer = await service.openPeer();
    await peer.write(Buffer.from(text, "latin1"));
    await waitFor("the end of the connection", peer.isClosed, { withinMs: 30_000 });
  });
});
