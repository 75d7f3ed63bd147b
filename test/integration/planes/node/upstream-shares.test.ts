/** Clients that occupy connections to an upstream leave enough for other apps and clients, and nobody waits for too long. */
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { startBackend } from "../../../support/http-backend.js";
import { fetchReply, json, open } from "../../../support/http-client.js";
import { admitted, createCleanup, startProxy, type TestProxyOptions } from "../../../support/http-proxy.js";
import { startSecureProxy } from "../../../support/http2-proxy.js";
import { loopMs } from "../../../support/loop-time.js";
import { waitFor } from "../../../support/wait-for.js";

const cleanup = createCleanup();
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  return cleanup.run();
});

/** Longer than any test. */
const NEVER = 3_600_000;
/** Fills the buffers of a connection. */
const LARGE = Buffer.alloc(20_000_000);
const SLOW_UPLOAD = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
const UNREAD_DOWNLOAD = "GET /large HTTP/1.1\r\nHost: a\r\n\r\n";

/** A backend that counts open requests, and the options of a proxy for it. Clients name their app. */
async function startServers({ limits, timeouts, ...options }: TestProxyOptions = {}) {
  const busy = { now: 0 };
  const backend = await cleanup.add(
    startBackend((request, response) => {
      busy.now++;
      response.on("close", () => busy.now--);
      request.resume().on("end", () => response.end(request.url === "/large" ? LARGE : "done"));
    }),
  );
  const settings: TestProxyOptions = {
    targets: [backend.target],
    upstream: { connections: 32 },
    decide: (arrival) => ({ ...admitted(), app: arrival.headerValues("x-app")[0] ?? "greedy" }),
    ...options,
    limits: { bodyRate: 0, ...limits },
    timeouts: { bodyIdleMs: NEVER, responseMs: NEVER, queueMs: NEVER, ...timeouts },
  };
  return { busy, settings };
}

/** Sends `text` on many connections that stay open and are not read. */
function occupy(port: number, from: string, text: string, count = 32): void {
  for (let n = 0; n < count; n++) {
    const socket = connect({ port, host: "127.0.0.1", localAddress: from });
    socket.on("error", () => {});
    socket.pause();
    socket.write(text);
    sockets.push(socket);
  }
}

const from = (localAddress: string, app: string) => ({ localAddress, headers: { "x-app": app } });

describe("two addresses that occupy all the connections they can get", () => {
  it.each([
    ["by slow uploads", SLOW_UPLOAD],
    ["by not reading responses", UNREAD_DOWNLOAD],
  ])("%s leave some for other apps and for other clients of their app", async (_, text) => {
    const { busy, settings } = await startServers();
    const { port } = await cleanup.add(startProxy(settings));
    occupy(port, "127.0.0.2", text);
    occupy(port, "127.0.0.3", text);
    await waitFor("occupied connections", () => busy.now >= 16);
    for (let n = 0; n < 5; n++) {
      expect((await fetchReply(port, "/", from("127.0.0.4", "quiet"))).status).toBe(200);
      expect((await fetchReply(port, "/", from("127.0.0.5", "greedy"))).status).toBe(200);
    }
  });

  it("leave some when the slow uploads are streams of HTTP/2 connections", async () => {
    const { busy, settings } = await startServers();
    const proxy = await cleanup.add(startSecureProxy(settings));
    for (const localAddress of ["127.0.0.2", "127.0.0.3"]) {
      const session = proxy.connect({ localAddress } as object);
      for (let n = 0; n < 32; n++) {
        const stream = session.request({ ":method": "POST" }, { endStream: false });
        stream.on("error", () => {});
        stream.write("a");
      }
    }
    await waitFor("occupied connections", () => busy.now >= 16);
    expect((await proxy.http1("GET", "/", { "x-app": "quiet" })).status).toBe(200);
    expect((await proxy.http1("GET", "/", { "x-app": "greedy" })).status).toBe(200);
  });
});

describe("one app", () => {
  it("with clients at many addresses leaves some connections for other apps", async () => {
    const { busy, settings } = await startServers();
    const { port } = await cleanup.add(startProxy(settings));
    for (let n = 2; n < 42; n++) occupy(port, `127.0.0.${n}`, SLOW_UPLOAD, 2);
    await waitFor("occupied connections", () => busy.now >= 25);
    expect((await fetchReply(port, "/", from("127.0.0.50", "quiet"))).status).toBe(200);
  });

  it("behind a trusted hop may use four fifths of the connections, and clients are told apart by X-Forwarded-For", async () => {
    const { busy, settings } = await startServers({ trustedHops: ["127.0.0.1", "10.0.0.0/8"] });
    const { port } = await cleanup.add(startProxy(settings));
    occupy(port, "127.0.0.1", SLOW_UPLOAD);
    await waitFor("four fifths", () => busy.now === 26);
    for (const socket of sockets.splice(0)) socket.destroy();
    await waitFor("free connections", () => busy.now === 0);
    // The last address that is no trusted hop, with or without a port.
    for (const port_ of ["", ":1", ":2"]) {
      const head = `\r\nX-Forwarded-For: 1.1.1.1, 9.9.9.9${port_}, 10.0.0.1\r\n`;
      occupy(port, "127.0.0.1", SLOW_UPLOAD.replace("\r\n", head));
    }
    await waitFor("its share", () => busy.now >= 14);
    expect((await fetchReply(port, "/", { headers: { "x-forwarded-for": "8.8.8.8" } })).status).toBe(200);
    expect(busy.now).toBeLessThan(20);
  });
});

describe("a request that waits for a connection", () => {
  it("gets 503 at the end of queue_ms, to which the time to connect does not add", async () => {
    const { busy, settings } = await startServers({
      upstream: { connections: 1 },
      timeouts: { queueMs: 300, connectMs: 30_000 },
    });
    const { port } = await cleanup.add(startProxy(settings));
    occupy(port, "127.0.0.2", SLOW_UPLOAD, 1);
    await waitFor("the upload", () => busy.now === 1);
    const since = loopMs();
    const reply = await fetchReply(port, "/");
    expect([reply.status, json(reply)]).toEqual([
      503,
      { error: "service_unavailable", reason: "upstream_queue_timeout" },
    ]);
    expect(loopMs() - since).toBeLessThan(5_000);
  });

  it("gets the connection of a slow transfer whose client holds more than others", async () => {
    const { busy, settings } = await startServers({
      upstream: { connections: 4 },
      timeouts: { queueMs: 2_000 },
    });
    const { port } = await cleanup.add(startProxy(settings));
    for (const app of ["one", "two", "three", "four"]) {
      occupy(port, "127.0.0.2", SLOW_UPLOAD.replace("\r\n", `\r\nX-App: ${app}\r\n`), 1);
      occupy(port, "127.0.0.3", SLOW_UPLOAD.replace("\r\n", `\r\nX-App: ${app}\r\n`), 1);
    }
    for (let n = 4; n < 8; n++) occupy(port, `127.0.0.${n}`, SLOW_UPLOAD.replace("\r\n", "\r\nX-App: five\r\n"), 1);
    await waitFor("all connections to be occupied", () => busy.now === 4);
    // The uploads are not slow before they have lasted for queue_ms, so the first requests may be refused.
    await waitFor("a connection", async () => {
      const { status } = await fetchReply(port, "/", from("127.0.0.9", "quiet"));
      return status === 200;
    });
  });

  it("that is aborted leaves its place in the queue to others", async () => {
    const { busy, settings } = await startServers({
      upstream: { connections: 1, queue: 1 },
      timeouts: { queueMs: 500, connectMs: NEVER },
    });
    const { port, admission } = await cleanup.add(startProxy(settings));
    occupy(port, "127.0.0.2", SLOW_UPLOAD, 1);
    await waitFor("the upload", () => busy.now === 1);
    const aborted = open(port, { path: "/" }).on("error", () => {});
    aborted.end();
    await waitFor("the request", () => admission.arrivals.length === 2);
    aborted.destroy();
    await waitFor("a place in the queue", async () => {
      const { reason } = json<{ reason: string }>(await fetchReply(port, "/"));
      return reason === "upstream_queue_timeout";
    });
  });
});
