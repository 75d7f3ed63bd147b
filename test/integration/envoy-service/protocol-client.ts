/** An HTTP/2 client for protocol tests of the listener for Envoy, and the listener that they share. */
import { type ClientHttp2Session, connect as connectHttp2, type IncomingHttpHeaders, type Settings } from "node:http2";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import type { EnvoyAccess } from "../../../src/envoy-service/access.js";
import { Writer } from "../../../src/envoy-service/grpc/protobuf-writer.js";
import type { UnaryMethod } from "../../../src/envoy-service/grpc/server.js";
import type { DescriptorStatus } from "../../../src/limiter/descriptors/descriptor.js";
import { everyone, type ListenerUnderTest, startEnvoyListener } from "../../support/envoy-listener.js";

export const METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
export const TOKEN = "plane-token-of-the-tests";
const status: DescriptorStatus = {
  allowed: true,
  code: "ok",
  unlimited: false,
  remaining: 0,
  resetMs: 0,
  retryAfterMs: 0,
  shadow: false,
};
/** What the tests of a file share; see `useListener`. */
export const world = {
  listener: undefined as unknown as ListenerUnderTest,
  session: undefined as unknown as ClientHttp2Session,
  access: everyone as EnvoyAccess,
  /** Calls that get no reply. */
  waiting: 0,
};

/** Never replies. */
export const waiting: UnaryMethod = {
  path: "/test.Slow/Wait",
  call() {
    world.waiting += 1;
    return new Promise(() => {});
  },
};
/** The connection preface and empty settings. */
export const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", "latin1");
export const request = (value = "v") => {
  const writer = new Writer();
  const descriptor = writer.text(1, "edge").open(2);
  const entry = writer.open(1);
  return writer.text(1, "k").text(2, value).close(entry).close(descriptor).finish();
};
export const frame = (message: Buffer, flag = 0) => {
  const head = Buffer.alloc(5, flag);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
};

export const allowAll = {
  decide: (_domain: string, descriptors: readonly unknown[]) => ({
    allowed: true,
    code: "ok",
    statuses: descriptors.map(() => status),
  }),
};
/** Starts one listener for the tests of a file and gives each test its own HTTP/2 session. */
export function useListener(): void {
  beforeAll(async () => {
    const access = () => world.access;
    world.listener = await startEnvoyListener({ descriptors: allowAll, methods: [waiting], access });
  });
  beforeEach(() => openSession(world.listener.url));
  afterEach(() => {
    world.session.destroy();
    world.access = everyone;
    world.waiting = 0;
    expect(world.listener.errors).toEqual([]);
  });
  afterAll(() => world.listener.close(0));
}

/** Replaces the session of the test. */
export function openSession(url: string, settings: Settings = {}): void {
  world.session?.destroy();
  world.session = connectHttp2(url, { settings });
  world.session.on("error", () => {});
}

export interface Reply {
  head: IncomingHttpHeaders;
  /** The headers, if there are no trailers. */
  trailers: IncomingHttpHeaders;
  body: Buffer;
}

export function call(chunks: Buffer[], headers: Record<string, string> = {}, end = true): Promise<Reply> {
  const stream = world.session.request({
    ":method": "POST",
    ":path": METHOD,
    "content-type": "application/grpc",
    te: "trailers",
    ...headers,
  });
  const reply: Reply = { head: {}, trailers: {}, body: Buffer.alloc(0) };
  stream.on("response", (head) => {
    reply.head = head;
    reply.trailers = head;
  });
  stream.on("trailers", (trailers) => (reply.trailers = trailers));
  stream.on("data", (data: Buffer) => (reply.body = Buffer.concat([reply.body, data])));
  const closed = new Promise<Reply>((resolve, reject) => {
    stream.on("error", reject);
    stream.on("close", () => resolve(reply));
  });
  for (const chunk of chunks) stream.write(chunk);
  if (end) stream.end();
  return closed;
}

export async function statusOf(promise: Promise<Reply>): Promise<number> {
  return Number((await promise).trailers["grpc-status"]);
}
