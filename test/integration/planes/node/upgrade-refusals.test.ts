/** Rejected, refused and failed upgrades: the response that the client gets, and the release of every slot. */
import { afterEach, describe, expect, it } from "vitest";
import { type Mirrored, mirror, startBackend } from "../../../support/http-backend.js";
import { bodyOf, openRaw, sendRaw, statusOf } from "../../../support/http-client.js";
import { createCleanup, refused } from "../../../support/http-proxy.js";
import { signal } from "../../../support/http-signal.js";
import { waitFor } from "../../../support/wait-for.js";
import { startRawUpgradeBackend, startWebSocketBackend, switching, upgradeHead } from "../../../support/ws-backend.js";
import { openSocket, reasonIn, startUpgradingProxy } from "../../../support/ws-proxy.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

const NOBODY = "127.0.0.1:1";

describe("an invalid or unsupported upgrade", () => {
  const head = (more: string) => upgradeHead({ more });
  const corpus: [name: string, bytes: string, status: number, reason: string][] = [
    ["with a Content-Length body", `${head("Content-Length: 5\r\n")}hello`, 400, "malformed_request"],
    ["with a chunked body", `${head("Transfer-Encoding: chunked\r\n")}0\r\n\r\n`, 400, "malformed_request"],
    ["with two lengths", head("Content-Length: 0\r\nContent-Length: 0\r\n"), 400, "malformed_request"],
    ["with two hosts", head("Host: b\r\n"), 400, "invalid_host"],
    ["with an invalid Content-Length", head("Content-Length: -0\r\n"), 400, "malformed_request"],
    ["to an invalid path", upgradeHead({ path: "/a#b" }), 400, "invalid_path"],
    ["with too many headers", head("X: y\r\n".repeat(101)), 431, "headers_too_large"],
    ["to a protocol that the route does not allow", upgradeHead({ protocol: "tcp" }), 501, "unsupported_upgrade"],
    ["on HEAD", upgradeHead({ method: "HEAD" }), 501, ""],
    ["with Expect: 100-continue", head("Expect: 100-continue\r\n"), 501, "unsupported_upgrade"],
  ];
  it.each(corpus)("is rejected before the decision: %s", async (_, bytes, status, reason) => {
    const backend = await cleanup.add(startWebSocketBackend());
    const { port, slots, admission } = await cleanup.add(startUpgradingProxy({ targets: [backend.target] }));
    const text = await sendRaw(port, bytes);
    expect(statusOf(text)).toBe(status);
    if (reason !== "") expect(reasonIn(text)).toBe(reason);
    expect(text.match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(text).toMatch(/\r\nConnection: close\r\n/i);
    expect([admission.arrivals.length, slots.asked.length, backend.connections()]).toEqual([0, 0, 0]);
  });

  it("gets 404 without a route, and 501 if the route has no connections", async () => {
    const { port } = await cleanup.add(
      startUpgradingProxy({ targets: [NOBODY], routes: [{ path: "/api/", upstream: "backend" }] }),
    );
    expect(statusOf(await sendRaw(port, upgradeHead({ more: "Connection: close\r\n" })))).toBe(404);
    expect(reasonIn(await sendRaw(port, upgradeHead({ path: "/api/" })))).toBe("unsupported_upgrade");
  });

  it("is handled as a plain request if it only offers h2c or comes from an HTTP/1.0 client", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port, slots } = await cleanup.add(
      startUpgradingProxy({ targets: [backend.target], connections: { protocols: ["websocket", "h2c"] } }),
    );
    const offer =
      "POST /one HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n" +
      "Content-Length: 3\r\n\r\nabc";
    const client = await openRaw(port);
    client.write(offer);
    await client.until((received) => received.includes('"body":"abc"'));
    client.write("GET /two HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    const text = await client.closed();
    expect(text.match(/HTTP\/1\.1 200/g)).toHaveLength(2);
    expect(text).toContain("/two");
    expect(text).not.toMatch(/"(upgrade|http2-settings)"/i);
    const old = await sendRaw(port, upgradeHead().replace("HTTP/1.1", "HTTP/1.0").replace("keep-alive, ", ""));
    expect(statusOf(old)).toBe(200);
    const { rawHeaders } = JSON.parse(bodyOf(old)) as Mirrored;
    expect(rawHeaders.map((name) => name.toLowerCase())).not.toContain("upgrade");
    expect(slots.asked).toHaveLength(0);
  });

  it("is rejected with 501 when pipelined behind an unfinished request, after that request's response", async () => {
    const go = signal();
    const backend = await cleanup.add(startBackend((_, response) => void go.promise.then(() => response.end("first"))));
    const { port, slots } = await cleanup.add(startUpgradingProxy({ targets: [backend.target] }));
    const client = await openRaw(port);
    client.write(`GET / HTTP/1.1\r\nHost: a\r\n\r\n${upgradeHead()}`);
    await waitFor("the first request to arrive", () => backend.connections() === 1);
    go.resolve();
    const text = await client.closed();
    expect(text.match(/HTTP\/1\.1 (\d+)/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 501"]);
    expect(slots.asked).toHaveLength(0);
  });
});

describe("a refused upgrade", () => {
  it("by the decision: the client gets the refusal, and no slot is acquired", async () => {
    const backend = await cleanup.add(startWebSocketBackend());
    const { port, slots } = await cleanup.add(
      startUpgradingProxy({ targets: [backend.target], decide: () => refused(429, { "Retry-After": "7" }) }),
    );
    const text = await sendRaw(port, upgradeHead());
    expect(statusOf(text)).toBe(429);
    expect(text).toContain("\r\nRetry-After: 7\r\n");
    expect(reasonIn(text)).toBe("quota_exhausted");
    expect(slots.asked).toHaveLength(0);
    expect(backend.connections()).toBe(0);
  });

  it("without a free slot: the client gets the refusal, no backend is connected, and the exchange is settled", async () => {
    const backend = await cleanup.add(startWebSocketBackend());
    const body = JSON.stringify({ error: "connection_limit_exceeded", reason: "LIMIT_EXCEEDED" });
    const { port, admission } = await cleanup.add(
      startUpgradingProxy({
        targets: [backend.target],
        place: async () => ({ allowed: false, status: 429, headers: { "Retry-After": "3" }, body }),
      }),
    );
    const text = await sendRaw(port, upgradeHead());
    expect(statusOf(text)).toBe(429);
    expect(text).toContain("\r\nRetry-After: 3\r\n");
    expect(bodyOf(text)).toBe(body);
    expect(backend.connections()).toBe(0);
    expect(await admission.settlement()).toMatchObject({ requestBytes: 0, responseBytes: 0 });
    await expect(openSocket(port)).rejects.toThrow("status 429");
  });

  it("because the slot keeper throws or returns an unknown pod: 500", async () => {
    const places = [
      () => "elsewhere:1",
      () => {
        throw new Error("broken");
      },
    ];
    for (const place of places) {
      const { port, slots } = await cleanup.add(startUpgradingProxy({ targets: [NOBODY], place }));
      expect(reasonIn(await sendRaw(port, upgradeHead()))).toBe("internal_error");
      expect(slots.held()).toBe(0);
    }
  });

  it.each([401, 403, 404, 426, 503])("by the backend: %i is forwarded, and the slot is released", async (status) => {
    const go = signal();
    const backend = await cleanup.add(startBackend(() => {}));
    backend.server.on("upgrade", (_, socket) => {
      socket.write(
        `HTTP/1.1 ${status} No\r\nX-Why: because\r\nWWW-Authenticate: Basic\r\nContent-Length: 10\r\n\r\nnever`,
      );
      void go.promise.then(() => socket.end(" mind"));
    });
    const { port, slots, admission, proxy } = await cleanup.add(startUpgradingProxy({ targets: [backend.target] }));
    const client = await openRaw(port);
    client.write(upgradeHead());
    await client.until((text) => text.endsWith("never"));
    expect(slots.held(), "released although the response is incomplete").toBe(0);
    go.resolve();
    const text = await client.closed();
    expect(statusOf(text)).toBe(status);
    for (const line of ["X-Why: because", "WWW-Authenticate: Basic", "X-Slot: 1", "Connection: close"])
      expect(text).toContain(`\r\n${line}\r\n`);
    expect(bodyOf(text)).toBe("never mind");
    expect(await admission.settlement()).toMatchObject({ responseBytes: 10 });
    await waitFor("no open connections", () => proxy.upgradedConnections() === 0 && proxy.openConnections() === 0);
  });

  it("by a backend with a chunked response: it is forwarded completely; an aborted response ends with a reset", async () => {
    const answers = ["HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nall\r\n0\r\n\r\n"];
    const whole = await cleanup.add(startRawUpgradeBackend((socket) => socket.end(answers[0]!)));
    const one = await cleanup.add(startUpgradingProxy({ targets: [whole.target] }));
    const text = await sendRaw(one.port, upgradeHead());
    expect(statusOf(text)).toBe(403);
    expect(bodyOf(text)).toBe("all");
    expect(text).not.toMatch(/transfer-encoding/i);

    const broken = await cleanup.add(
      startRawUpgradeBackend((socket) => socket.end("HTTP/1.1 403 No\r\nContent-Length: 9\r\n\r\nsome")),
    );
    const two = await cleanup.add(startUpgradingProxy({ targets: [broken.target] }));
    const client = await openRaw(two.port);
    const failed = new Promise<Error>((resolve) => void client.socket.once("error", resolve));
    client.write(upgradeHead());
    expect((await failed).message).toContain("ECONNRESET");
    await two.slots.allFree();
  });
});

describe("an upgrade whose backend fails", () => {
  it("and is unreachable: 502 and the slot is released; another pod is tried with its own slot", async () => {
    const alone = await cleanup.add(startUpgradingProxy({ targets: [NOBODY] }));
    const text = await sendRaw(alone.port, upgradeHead());
    expect(statusOf(text)).toBe(502);
    expect(reasonIn(text)).toBe("upstream_unreachable");
    expect(alone.slots.given.map(({ releases }) => releases)).toEqual([1]);

    const backend = await cleanup.add(startWebSocketBackend());
    const { port, slots, lines } = await cleanup.add(
      startUpgradingProxy({
        targets: [NOBODY, backend.target],
        upstream: { passive: { failures: 2 } },
        place: ({ pods }) => pods[0]!,
      }),
    );
    for (let n = 0; n < 3; n++) (await openSocket(port)).close();
    await slots.allFree();
    expect(
      slots.asked.map(({ pods }) => pods),
      "after two failures the pod is skipped",
    ).toEqual([
      [NOBODY, backend.target],
      [backend.target],
      [NOBODY, backend.target],
      [backend.target],
      [backend.target],
    ]);
    expect(lines).toContainEqual(expect.objectContaining({ message: "target is skipped" }));
  });

  it("gets the first failure as response if there is no slot for a retry", async () => {
    let asked = 0;
    const { port } = await cleanup.add(
      startUpgradingProxy({
        targets: [NOBODY, "127.0.0.1:2"],
        place: ({ pods }) => (asked++ === 0 ? pods[0]! : { allowed: false, status: 429, headers: {}, body: "" }),
      }),
    );
    expect(statusOf(await sendRaw(port, upgradeHead()))).toBe(502);
    expect(asked).toBe(2);
  });

  const bad: [name: string, answer: string][] = [
    ["closes without a response", ""],
    ["does not respond with HTTP", "what?\r\n\r\n"],
    ["switches to a protocol that was not requested", switching("", "tcp")],
    ["switches to HTTP/2", switching("", "h2c")],
    ["switches without naming a protocol", "HTTP/1.1 101 Switching Protocols\r\n\r\n"],
    ["sends two Content-Length headers", "HTTP/1.1 403 No\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"],
  ];
  it.each(bad)("and %s: 502 without a retry", async (_, answer) => {
    const backend = await cleanup.add(startRawUpgradeBackend((socket) => socket.end(answer)));
    const { port, slots } = await cleanup.add(startUpgradingProxy({ targets: [backend.target, backend.target] }));
    const text = await sendRaw(port, upgradeHead());
    expect(statusOf(text)).toBe(502);
    expect(reasonIn(text)).toBe("upstream_broken");
    expect(backend.connections()).toBe(1);
    await slots.allFree();
  });

  it("and does not respond in time: 504", async () => {
    const backend = await cleanup.add(startRawUpgradeBackend(() => {}));
    const { port, slots } = await cleanup.add(
      startUpgradingProxy({ targets: [backend.target], timeouts: { responseMs: 100, lingerMs: 50 } }),
    );
    const text = await sendRaw(port, upgradeHead());
    expect(statusOf(text)).toBe(504);
    expect(reasonIn(text)).toBe("upstream_timeout");
    await slots.allFree();
  });

  it("and has no targets: 503", async () => {
    const { port, slots } = await cleanup.add(startUpgradingProxy({ upstreams: { backend: {} } }));
    const text = await sendRaw(port, upgradeHead());
    expect(statusOf(text)).toBe(503);
    expect(reasonIn(text)).toBe("no_target");
    expect(slots.asked).toHaveLength(0);
  });
});
