/** Sequences of HTTP/2 frames, sent to the listener for Envoy: they end at most their own connection. */
import { ALL_HEADERS } from "../../src/core/response-headers.js";
import { createHealthService } from "../../src/envoy-service/grpc/health-service.js";
import { createEnvoyListener } from "../../src/envoy-service/listener.js";
import { createJsonApi, createRateLimitService } from "../../src/envoy-service/rate-limit/service.js";
import { headerBlock, huffmanHeader } from "../../test/support/http2-frames.js";
import { getHead, grpcHead } from "../../test/support/http2-heads.js";
import { waitFor } from "../../test/support/wait-for.js";
import type { FuzzTarget, RunningTarget } from "../target.js";
import { frameSequence, isAnswered, record } from "./frame-sequences.js";
import { exchange, listening } from "./gateway.js";

const HEALTH_EVERY = 50;
const message = Buffer.from([0, 0, 0, 0, 7, 10, 1, 97, 18, 2, 10, 0]);
const trailers = headerBlock({ "x-trailer": "1" });

export const http2: FuzzTarget = {
  seeds: [
    Buffer.concat([record(4, 1, 0), record(1, 5, 1, getHead("/healthcheck"))]),
    Buffer.concat([record(4, 1, 0), record(1, 4, 1, grpcHead), record(0, 1, 1, message)]),
    Buffer.concat([
      record(1, 4, 1, grpcHead),
      record(0, 0, 1, message),
      record(1, 5, 1, trailers),
      record(3, 0, 1, Buffer.alloc(4)),
    ]),
    Buffer.concat([
      record(4, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0])),
      record(1, 5, 1, getHead("/healthcheck")),
      record(8, 0, 1, Buffer.from([0, 0, 0, 1])),
    ]),
    Buffer.concat([
      record(6, 0, 0, Buffer.alloc(8)),
      record(2, 0, 3, Buffer.from([0, 0, 0, 1, 9])),
      record(7, 0, 0, Buffer.alloc(8)),
    ]),
    Buffer.concat([
      record(1, 0, 1, grpcHead.subarray(0, 20)),
      record(9, 4, 1, grpcHead.subarray(20)),
      record(1, 5, 3, huffmanHeader("x", 800)),
    ]),
    Buffer.concat([
      record(1, 4, 1, getHead("/json", "POST")),
      record(0, 1, 1, Buffer.from('{"domain":"a","descriptors":[]}')),
    ]),
  ],
  words: [
    ...[
      record(4, 1, 0),
      record(1, 5, 3, getHead("/healthcheck")),
      record(1, 4, 5, grpcHead),
      record(0, 0, 5, message),
      record(0, 1, 5),
    ],
    ...[
      record(3, 0, 5, Buffer.alloc(4)),
      record(8, 0, 0, Buffer.from([0x7f, 0xff, 0xff, 0xff])),
      record(9, 0, 1),
      record(6, 0, 0, Buffer.alloc(8)),
    ],
    ...[
      record(4, 0, 0, Buffer.from([0, 5, 0, 255, 255, 255])),
      record(5, 4, 1, Buffer.from([0, 0, 0, 2])),
      record(0xbe, 0, 0),
    ],
  ].map((bytes) => bytes.toString("latin1")),
  maxBytes: 32_768,
  budget: { cpuMs: 500, memoryMb: 48 },
  start,
};

async function start(): Promise<RunningTarget> {
  const errors: string[] = [];
  const none = {
    allowed: true,
    code: "ok",
    unlimited: false,
    remaining: 0,
    resetMs: 0,
    retryAfterMs: 0,
    shadow: false,
  };
  const rateLimit = {
    descriptors: {
      decide: (_domain: string, descriptors: readonly unknown[]) => ({
        allowed: true,
        code: "ok",
        statuses: descriptors.map(() => none),
      }),
    },
    headers: () => ALL_HEADERS,
  };
  const listener = createEnvoyListener({
    methods: [createRateLimitService(rateLimit), createHealthService([], () => true)],
    routes: [
      createJsonApi(rateLimit),
      { method: "GET", path: "/healthcheck", isPublic: true, handle: () => ({ status: 200, headers: {}, body: "OK" }) },
    ],
    access: () => ({ planeToken: "", allow: ["127.0.0.0/8"] }),
    limits: () => ({ maxMessageBytes: 65_536, maxBufferedBytes: 1_048_576, maxConnections: 1_000 }),
    log: {
      debug() {},
      info() {},
      warn() {},
      error: (fields, text) => errors.push(`${text} ${(fields.err as Error)?.stack}`),
    },
  });
  const port = await listening(listener.server);
  let inputs = 0;
  return {
    async run(input) {
      await exchange(port, frameSequence(input), isAnswered);
      if (++inputs % HEALTH_EVERY === 0) {
        const { status } = await fetch(`http://127.0.0.1:${port}/healthcheck`);
        if (status !== 200) errors.push(`a health check got ${status}`);
      }
      if (errors.length > 0) throw new Error(errors.splice(0).join("; "));
    },
    async stop() {
      await listener.close(0);
      // The connections are counted until their "close" event.
      await waitFor("the end of all connections", () => listener.openConnections() === 0);
    },
  };
}
