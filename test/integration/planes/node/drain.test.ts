/** Draining the proxy: new connections are refused, running exchanges may finish, and those that exceed the grace period are aborted and settled. */

import { once } from "node:events";
import { Agent } from "node:http";
import { connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { startBackend } from "../../../support/http-backend.js";
import { fetchReply, openRaw, statusOf } from "../../../support/http-client.js";
import { createCleanup, startProxy } from "../../../support/http-proxy.js";
import { signal } from "../../../support/http-signal.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

/** The shortest timeout determines how often the proxy checks for idle connections. */
const quick = { timeouts: { bodyIdleMs: 400 } };

async function isRefused(port: number): Promise<boolean> {
  const socket = connect({ port, host: "127.0.0.1" });
  try {
    await once(socket, "connect");
    socket.destroy();
    return false;
  } catch {
    return true;
  }
}

describe("a drain", () => {
  it("finishes running exchanges with Connection: close, closes idle connections, and then completes", async () => {
    const go = signal();
    const busy = signal();
    const backend = await cleanup.add(
      startBackend((_, response) => {
        busy.resolve();
        void go.promise.then(() => response.end("done"));
      }),
    );
    const { port, proxy, admission, lines } = await cleanup.add(startProxy({ targets: [backend.target], ...quick }));
    const idle = await openRaw(port);
    const agent = new Agent({ keepAlive: true });
    const replied = fetchReply(port, "/", { agent });
    await busy.promise;
    const drained = proxy.drain(60_000);
    await idle.closed();
    expect(await isRefused(port)).toBe(true);
    go.resolve();
    const reply = await replied;
    expect(reply.body).toBe("done");
    expect(reply.headers.connection).toBe("close");
    await drained;
    expect(admission.settled).toHaveLength(1);
    expect(lines.filter(({ message }) => String(message).includes("grace period"))).toEqual([]);
  });

  it("finishes a response that was started with keep-alive, and then closes the connection", async () => {
    const go = signal();
    const backend = await cleanup.add(
      startBackend((_, response) => {
        response.write("begun, ");
        void go.promise.then(() => response.end("done"));
      }),
    );
    const { port, proxy } = await cleanup.add(startProxy({ targets: [backend.target], timeouts: { bodyIdleMs: 400 } }));
    const client = await openRaw(port);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await client.until((text) => text.includes("begun"));
    const drained = proxy.drain(60_000);
    go.resolve();
    expect(await client.closed()).toMatch(/done\r\n0\r\n\r\n$/);
    await drained;
  });

  it("aborts and settles unfinished exchanges at the end of the grace period", async () => {
    const busy = signal();
    const backend = await cleanup.add(
      startBackend((_, response) => {
        response.write("part");
        busy.resolve();
      }),
    );
    const { port, proxy, admission, lines } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const client = await openRaw(port);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await client.until((text) => text.includes("part"));
    await proxy.drain(50);
    await client.closed();
    expect(admission.settled).toMatchObject([{ responseBytes: 4 }]);
    expect(lines).toContainEqual(
      expect.objectContaining({ message: "connections closed at the end of the grace period" }),
    );
  });

  it("loses no request under load", async () => {
    const backend = await cleanup.add(startBackend((_, response) => void setImmediate(() => response.end("ok"))));
    const { port, proxy, admission } = await cleanup.add(startProxy({ targets: [backend.target], ...quick }));
    let served = 0;
    let stopping = false;
    const half = signal();
    async function client(): Promise<void> {
      // One connection per request: a request on a reused connection may fail because the connection is being closed, and HTTP clients must handle that.
      for (;;) {
        const raw = await openRaw(port).catch(() => undefined);
        if (raw === undefined) return;
        raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        const text = await raw.until((received) => received.includes("ok")).catch(() => raw.text());
        raw.socket.destroy();
        // The kernel had accepted the connection, but the proxy had not when the listener was closed.
        if (text === "" && stopping) return;
        expect(statusOf(text)).toBe(200);
        if (++served === 100) half.resolve();
      }
    }
    const clients = Array.from({ length: 10 }, client);
    await half.promise;
    stopping = true;
    await proxy.drain(60_000);
    await Promise.all(clients);
    expect(admission.settled).toHaveLength(admission.admitted.length);
    expect(served).toBeGreaterThanOrEqual(100);
  });
});
