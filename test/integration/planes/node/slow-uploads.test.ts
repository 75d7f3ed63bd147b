/** Clients that send slowly, or too much at a time, occupy neither the upstream nor the gateway: others are served. */
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { startBackend } from "../../../support/http-backend.js";
import { bodyOf, fetchReply, json, openRaw, sendRaw, statusOf } from "../../../support/http-client.js";
import { admitted, createCleanup, startProxy } from "../../../support/http-proxy.js";
import { signal } from "../../../support/http-signal.js";
import { pause, waitFor } from "../../../support/wait-for.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());
const CHUNKED = "POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
/** Longer than any test. */
const NEVER = 3_600_000;

/** Uploads of one byte per interval, until their connection is closed. */
function startSlowUploads(port: number, count: number, from = "127.0.0.1") {
  const sockets: Socket[] = [];
  const replies: string[] = [];
  for (let i = 0; i < count; i++) {
    const socket = connect({ port, host: "127.0.0.1", localAddress: from });
    socket.on("error", () => {});
    socket.on("data", (data) => (replies[i] = (replies[i] ?? "") + data.toString()));
    socket.write(CHUNKED);
    sockets.push(socket);
  }
  const timer = setInterval(() => {
    for (const socket of sockets) if (socket.writable) socket.write("1\r\na\r\n");
  }, 20);
  return {
    replies,
    stop() {
      clearInterval(timer);
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** A backend that reads whole requests, and counts those that are open. */
async function startReadingBackend() {
  const open = { now: 0, most: 0 };
  const backend = await cleanup.add(
    startBackend((request, response) => {
      open.now++;
      open.most = Math.max(open.most, open.now);
      response.on("close", () => open.now--);
      request.resume().on("end", () => response.end("done"));
    }),
  );
  return { ...backend, open };
}

describe("uploads below the minimum rate", () => {
  it("get 408 and free their upstream connection: other clients are served", async () => {
    const backend = await startReadingBackend();
    const { port } = await cleanup.add(
      startProxy({
        targets: [backend.target],
        upstream: { connections: 8 },
        limits: { bodyRate: 500, requestsPerClient: 0 },
        timeouts: { bodyRateMs: 400, bodyIdleMs: NEVER, responseMs: NEVER, queueMs: NEVER },
      }),
    );
    const slow = startSlowUploads(port, 12);
    await waitFor("its share of the connections to be in use", () => backend.open.now === 4);
    expect((await fetchReply(port, "/")).status).toBe(200);
    await waitFor("all slow uploads to be refused", () => slow.replies.filter(Boolean).length === 12);
    expect(slow.replies.map(statusOf)).toEqual(Array<number>(12).fill(408));
    slow.stop();
  });

  it("are measured only while the gateway waits for the client", async () => {
    const readOn = signal();
    const backend = await cleanup.add(
      startBackend(async (request, response) => {
        await readOn.promise;
        request.resume().on("end", () => response.end("done"));
      }),
    );
    const { port } = await cleanup.add(
      startProxy({
        targets: [backend.target],
        limits: { bodyRate: 500 },
        timeouts: { bodyRateMs: 100, bodyIdleMs: NEVER, responseMs: NEVER },
      }),
    );
    const body = Buffer.alloc(20_000_000);
    const reply = fetchReply(port, "/", { method: "POST", body });
    await pause(600);
    readOn.resolve();
    expect((await reply).status).toBe(200);
  });
});

describe("a client with too many running requests", () => {
  it("gets 429, and others are served", async () => {
    const backend = await startReadingBackend();
    const { port, admission } = await cleanup.add(
      startProxy({
        targets: [backend.target],
        upstream: { connections: 8 },
        limits: { requestsPerClient: 3, bodyRate: 0 },
      }),
    );
    const slow = startSlowUploads(port, 10, "127.0.0.2");
    await waitFor("the refusals", () => slow.replies.filter(Boolean).length === 7);
    const refusal = slow.replies.find(Boolean)!;
    expect(statusOf(refusal)).toBe(429);
    expect(JSON.parse(bodyOf(refusal))).toEqual({ error: "rate_limit_exceeded", reason: "client_concurrency" });
    // Nothing was charged for them.
    expect(admission.arrivals).toHaveLength(3);
    expect((await fetchReply(port, "/")).status).toBe(200);
    slow.stop();
    // Its requests have ended, so it may send further ones.
    await waitFor("the place of an ended request", async () => {
      const reply = await sendRaw(port, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
      return statusOf(reply) === 200;
    });
  });

  it("is told apart behind a trusted hop by X-Forwarded-For, and the hop itself has no limit", async () => {
    const backend = await startReadingBackend();
    const { port } = await cleanup.add(
      startProxy({ targets: [backend.target], limits: { requestsPerClient: 1 }, trustedHops: ["127.0.0.1"] }),
    );
    const first = await openRaw(port);
    first.write(CHUNKED.replace("Host: a", "Host: a\r\nX-Forwarded-For: 9.9.9.9, 10.0.0.1"));
    // The head is sent with the first byte of the body.
    first.write("1\r\na\r\n");
    await waitFor("the first request", () => backend.open.now === 1);
    const from = async (headers: Record<string, string>) => (await fetchReply(port, "/", { headers })).status;
    expect(await from({ "x-forwarded-for": "8.8.8.8, 10.0.0.1" })).toBe(429);
    expect(await from({ "x-forwarded-for": "10.0.0.1, 8.8.8.8" })).toBe(200);
    expect(await from({})).toBe(200);
    first.write("0\r\n\r\n");
    await waitFor("the end of the first request", () => backend.open.now === 0);
    expect(await from({ "x-forwarded-for": "10.0.0.1" })).toBe(200);
    first.socket.destroy();
  });
});

describe("an app with too many running requests", () => {
  it("gets 429, and other apps are served", async () => {
    const backend = await startReadingBackend();
    const { port } = await cleanup.add(
      startProxy({
        targets: [backend.target],
        limits: { requestsPerApp: 2, bodyRate: 0 },
        decide: (arrival) => ({ ...admitted(), app: arrival.headerValues("x-app")[0] ?? "busy" }),
      }),
    );
    const slow = startSlowUploads(port, 4);
    await waitFor("the refusals", () => slow.replies.filter(Boolean).length === 2);
    const refusal = slow.replies.find(Boolean)!;
    expect(statusOf(refusal)).toBe(429);
    expect(JSON.parse(bodyOf(refusal))).toEqual({ error: "rate_limit_exceeded", reason: "app_concurrency" });
    expect((await fetchReply(port, "/")).status).toBe(429);
    expect((await fetchReply(port, "/", { headers: { "x-app": "quiet" } })).status).toBe(200);
    slow.stop();
  });
});

describe("an app on a dry run with too many running requests", () => {
  it("is served, and its responses say that they would be refused", async () => {
    const backend = await startReadingBackend();
    const { port } = await cleanup.add(
      startProxy({
        targets: [backend.target],
        limits: { requestsPerApp: 1, bodyRate: 0 },
        decide: () => ({ ...admitted(), app: "trial", dryRun: true }),
      }),
    );
    const slow = startSlowUploads(port, 3);
    await waitFor("the uploads", () => backend.open.now === 3);
    const { status, headers } = await fetchReply(port, "/");
    expect([status, headers["x-ratelimit-dry-run"]]).toEqual([200, "would-refuse; reason=app_concurrency"]);
    slow.stop();
  });
});

describe("the queue for connections to a target", () => {
  it("is bounded: further requests get 503 at once", async () => {
    const backend = await startReadingBackend();
    const { port } = await cleanup.add(
      startProxy({
        targets: [backend.target],
        upstream: { connections: 1, queue: 1 },
        limits: { bodyRate: 0 },
        timeouts: { bodyIdleMs: NEVER, responseMs: NEVER, queueMs: NEVER },
      }),
    );
    const slow = startSlowUploads(port, 1);
    await waitFor("the connection to be in use", () => backend.open.now === 1);
    const queued = fetchReply(port, "/");
    const reply = await waitFor("a refusal", async () => {
      const next = await fetchReply(port, "/", { signal: AbortSignal.timeout(200) }).catch(() => undefined);
      return next;
    });
    expect(reply.status).toBe(503);
    expect(await json(reply)).toEqual({ error: "service_unavailable", reason: "upstream_queue_full" });
    slow.stop();
    expect((await queued).status).toBe(200);
    expect((await fetchReply(port, "/")).status).toBe(200);
    expect(backend.open.most).toBe(1);
  });

  it("is left after a time with 503, and the place is free when a connection is", async () => {
    const backend = await startReadingBackend();
    const { port } = await cleanup.add(
      startProxy({
        targets: [backend.target],
        upstream: { connections: 1, queue: 1 },
        limits: { bodyRate: 0 },
        timeouts: { connectMs: 100, queueMs: 100, bodyIdleMs: NEVER, responseMs: NEVER },
      }),
    );
    const slow = startSlowUploads(port, 1);
    await waitFor("the connection to be in use", () => backend.open.now === 1);
    const reply = await fetchReply(port, "/");
    expect(reply.status).toBe(503);
    expect(await json(reply)).toEqual({ error: "service_unavailable", reason: "upstream_queue_timeout" });
    slow.stop();
    await waitFor("a free connection", async () => (await fetchReply(port, "/")).status === 200);
    expect((await fetchReply(port, "/")).status).toBe(200);
  });
});
