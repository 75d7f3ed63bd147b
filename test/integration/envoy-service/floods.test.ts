/** Floods of frames and connections on the listener for Envoy of a real service process, with budgets for memory and CPU time. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AttackedService, type Peer, startAttackedService } from "../../support/attacked-service.js";
import {
  ACK,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  HEADERS,
  headersFrames,
  http2Frame,
  indexedBomb,
  PING,
  PRIORITY,
  prefaceWith,
  RESET,
  SETTINGS,
  windowUpdate,
} from "../../support/http2-frames.js";
import { getHead } from "../../support/http2-heads.js";
import { waitFor } from "../../support/wait-for.js";

/** An address outside of `control.allow`. */
const OUTSIDER = "127.0.0.2";
const BYTES = 8_000_000;
const acknowledged = http2Frame(SETTINGS, ACK, 0);
const start = Buffer.concat([prefaceWith(), acknowledged]);
const health = getHead("/healthcheck");
const repeated = (frame: Buffer) => Buffer.concat(Array<Buffer>(Math.ceil(60_000 / frame.length)).fill(frame));

let service: AttackedService;
beforeAll(async () => {
  service = await startAttackedService({ control: 'allow: ["127.0.0.1/32"]' });
});
afterAll(() => service?.stop());

interface Flood {
  /** Sent once. */
  first?: Buffer;
  /** Sent until the connection is closed, nothing is read any more, or `BYTES` were sent. */
  next(round: number): Buffer;
  reads?: boolean;
}

const floods: [string, Flood][] = [
  ["calls that are reset at once", { next: (round) => resets(round) }],
  ["pings", { next: () => repeated(http2Frame(PING, 0, 0, Buffer.alloc(8))) }],
  ["pings without reading", { next: () => repeated(http2Frame(PING, 0, 0, Buffer.alloc(8))), reads: false }],
  ["settings", { next: () => repeated(http2Frame(SETTINGS, 0, 0)) }],
  ["settings without reading", { next: () => repeated(http2Frame(SETTINGS, 0, 0)), reads: false }],
  [
    "CONTINUATION frames without end",
    {
      first: http2Frame(HEADERS, 0, 1, health),
      next: () => http2Frame(CONTINUATION, 0, 1, Buffer.alloc(16_000, 0x82)),
    },
  ],
  [
    "empty CONTINUATION frames",
    { first: http2Frame(HEADERS, 0, 1, health), next: () => repeated(http2Frame(CONTINUATION, 0, 1)) },
  ],
  [
    "empty DATA frames",
    {
      first: http2Frame(HEADERS, END_HEADERS, 1, getHead("/json", "POST")),
      next: () => repeated(http2Frame(DATA, 0, 1)),
    },
  ],
  ["PRIORITY frames", { next: () => repeated(http2Frame(PRIORITY, 0, 1, Buffer.from([0, 0, 0, 3, 1]))) }],
  ["window updates", { next: () => repeated(windowUpdate(0, 1)) }],
  ["unknown frames", { next: () => repeated(http2Frame(0xbe, 0, 0, Buffer.alloc(20))) }],
  [
    "headers that refer 15,000 times to a header of 4 kB",
    { next: (round) => headersFrames(2 * round + 1, indexedBomb(health, 15_000)) },
  ],
];

function resets(round: number): Buffer {
  const frames = Array.from({ length: 500 }, (_, i) => {
    const stream = 2 * (500 * round + i) + 1;
    return [
      http2Frame(HEADERS, END_HEADERS | END_STREAM, stream, health),
      http2Frame(RESET, 0, stream, Buffer.alloc(4)),
    ];
  });
  return Buffer.concat(frames.flat());
}

async function send(peer: Peer, { first, next }: Flood): Promise<Peer[]> {
  await peer.write(Buffer.concat([start, first ?? Buffer.alloc(0)]));
  for (let sent = 0, round = 0; sent < BYTES; round++) {
    const bytes = next(round);
    if (!(await peer.write(bytes))) break;
    sent += bytes.length;
  }
  return [peer];
}

describe("a flood stays within its budget of memory and CPU time:", () => {
  it.for(floods)("%s", async ([, flood]) => {
    const cost = await service.costOf(async () => send(await service.openPeer({ reads: flood.reads ?? true }), flood));
    expect(cost.memoryMb).toBeLessThan(100);
    expect(cost.cpuMs).toBeLessThan(4_000);
  });

  it("the same floods from an address that is not allowed", async () => {
    const cost = await service.costOf(async () => {
      const sent: Peer[] = [];
      for (const [, flood] of floods) {
        sent.push(...(await send(await service.openPeer({ from: OUTSIDER, reads: flood.reads ?? true }), flood)));
      }
      return sent;
    });
    expect(cost.memoryMb).toBeLessThan(100);
    expect(cost.cpuMs).toBeLessThan(4_000 * floods.length);
  });

  it("2,000 idle connections from an address that is not allowed, all closed within seconds", async () => {
    const peers: Peer[] = [];
    const open = () => peers.filter((peer) => !peer.isClosed()).length;
    const cost = await service.costOf(async () => {
      for (let i = 0; i < 2_000; i += 100) {
        peers.push(...(await Promise.all(Array.from({ length: 100 }, () => service.openPeer({ from: OUTSIDER })))));
      }
      await waitFor("all of them to be closed", () => open() === 0);
      return peers;
    });
    expect(cost.memoryMb).toBeLessThan(100);
    expect(cost.cpuMs).toBeLessThan(4_000);
  });
});
