/** Changing options while the proxy runs: they apply from the next request on, running exchanges continue, and no request fails. */
import { once } from "node:events";
import { Agent, type RequestListener } from "node:http";
import type { Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import type { ProxyOptions } from "../../../../src/config/options/proxy.js";
import { type Mirrored, mirror, startBackend, valuesIn } from "../../../support/http-backend.js";
import { fetchReply, json, openRaw } from "../../../support/http-client.js";
import { admitted, createCleanup, createTestAdmission, startProxy } from "../../../support/http-proxy.js";
import { signal } from "../../../support/http-signal.js";
import { waitFor } from "../../../support/wait-for.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

const toBackend = (targets: string[], more: Partial<ProxyOptions> = {}): ProxyOptions => ({
  routes: [{ path: "/", upstream: "backend" }],
  upstreams: { backend: { targets } },
  ...more,
});

/** A backend that responds with its name and counts its open connections. */
async function named(name: string, listener?: RequestListener) {
  const open = new Set<Socket>();
  const backend = await cleanup.add(startBackend(listener ?? ((_, response) => void response.end(name))));
  backend.server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  return { ...backend, name, open: () => open.size };
}

describe("new options", () => {
  it("under load: no request fails while targets and routes change and old backends stop", async () => {
    let current = await named("0");
    const { port, proxy } = await cleanup.add(startProxy({ targets: [current.target] }));
    let served = 0;
    let stopping = false;
    const failures: string[] = [];
    async function client(): Promise<void> {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      while (!stopping) {
        const method = served % 3 === 0 ? "POST" : "GET";
        const reply = await fetchReply(port, "/x", { agent, method, ...(method === "POST" ? { body: "abc" } : {}) });
        if (reply.status === 200) served++;
        else failures.push(`${reply.status} ${reply.body}`);
      }
      agent.destroy();
    }
    const clients = Array.from({ length: 16 }, client);
    for (let round = 1; round <= 20; round++) {
      const next = await named(String(round));
      const before = current;
      const shared = round % 2 === 0 ? [next.target, before.target] : [next.target];
      proxy.reconfigure(toBackend(shared));
      if (shared.length > 1) {
        proxy.reconfigure(toBackend([next.target], { routes: [{ path: "/x", upstream: "backend" }] }));
      }
      current = next;
      const seen = served;
      await waitFor("the old backend to have no connections", () => before.open() === 0);
      // Stopped, so that a request that is still sent to it fails.
      await before.stop();
      await waitFor("more requests", () => served > seen + 200);
    }
    stopping = true;
    await Promise.all(clients);
    expect(failures).toEqual([]);
    expect(served).toBeGreaterThan(4_000);
  });

  it("apply from the next request on; a running response continues from its old backend", async () => {
    const go = signal();
    const old = await named("old", (_, response) => {
      response.write("begun, ");
      void go.promise.then(() => response.end("done"));
    });
    const fresh = await named("fresh");
    const { port, proxy } = await cleanup.add(startProxy({ targets: [old.target] }));
    const client = await openRaw(port);
    client.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    await client.until((text) => text.includes("begun"));
    proxy.reconfigure(toBackend([fresh.target]));
    expect((await fetchReply(port)).body).toBe("fresh");
    expect(old.open()).toBe(1);
    go.resolve();
    expect(await client.closed()).toContain("done");
    await waitFor("the old pool to be closed", () => old.open() === 0);
  });

  it("do not apply to a request whose decision is pending", async () => {
    const old = await named("old");
    const fresh = await named("fresh");
    const decide = signal();
    let first = true;
    const { port, proxy } = await cleanup.add(
      startProxy({
        targets: [old.target],
        decide: () => {
          if (!first) return admitted();
          first = false;
          return decide.promise.then(() => admitted());
        },
      }),
    );
    const waiting = fetchReply(port);
    await waitFor("the decision to be pending", () => !first);
    proxy.reconfigure(toBackend([fresh.target]));
    expect((await fetchReply(port)).body).toBe("fresh");
    decide.resolve();
    expect((await waiting).body).toBe("old");
    await waitFor("the old pool to be closed", () => old.open() === 0);
  });

  it("keep the connections and the health state of targets that remain", async () => {
    const good = await named("good");
    const bad = await named("bad", (request) => void request.socket.destroy());
    const passive = { failures: 1, downMs: 600_000 };
    const settings = (targets: string[]): ProxyOptions => ({
      routes: [{ path: "/", upstream: "backend" }],
      upstreams: { backend: { targets, passive } },
    });
    const { port, proxy, lines } = await cleanup.add(startProxy(settings([good.target, bad.target])));
    await waitFor("the failing target to be skipped", async () => {
      await fetchReply(port, "/", { method: "POST" });
      return lines.some(({ message }) => message === "target is skipped");
    });
    const [goodOnes, badOnes] = [good.connections(), bad.connections()];
    const other = await named("other");
    proxy.reconfigure(settings([bad.target, good.target]));
    proxy.reconfigure({ ...settings([good.target, bad.target]), limits: { headerCount: 50 } });
    for (let n = 0; n < 4; n++) expect((await fetchReply(port, "/", { method: "POST" })).body).toBe("good");
    expect([good.connections(), bad.connections()]).toEqual([goodOnes, badOnes]);
    proxy.reconfigure(settings([other.target, bad.target]));
    for (let n = 0; n < 4; n++) expect((await fetchReply(port, "/", { method: "POST" })).body).toBe("other");
    expect(bad.connections()).toBe(badOnes);
  });

  it("that are invalid are rejected and change nothing", async () => {
    const good = await named("good");
    const { port, proxy } = await cleanup.add(startProxy({ targets: [good.target] }));
    expect(() => proxy.reconfigure(toBackend(["127.0.0.1:1/path"]))).toThrow("invalid target");
    expect(() => proxy.reconfigure(toBackend([]))).toThrow("no targets");
    expect(() => proxy.reconfigure(toBackend(["127.0.0.1:1"], { trustedHops: ["banana"] }))).toThrow("invalid network");
    const nowhere = { routes: [{ path: "/", upstream: "nowhere" }], upstreams: {} };
    expect(() => proxy.reconfigure(nowhere)).toThrow("nowhere");
    expect((await fetchReply(port)).body).toBe("good");
  });

  it("apply to open connections: limits, timeouts and trusted hops", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port, proxy } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ask = () =>
      fetchReply(port, "/", { agent, method: "POST", body: "12345", headers: { "x-forwarded-for": "192.0.2.1" } });
    const before = await ask();
    expect(valuesIn(json<Mirrored>(before).rawHeaders, "x-forwarded-for")).toEqual(["127.0.0.1"]);
    proxy.reconfigure(toBackend([backend.target], { trustedHops: ["127.0.0.0/8"] }));
    const trusted = await ask();
    expect(trusted.localPort).toBe(before.localPort);
    expect(valuesIn(json<Mirrored>(trusted).rawHeaders, "x-forwarded-for")).toEqual(["192.0.2.1, 127.0.0.1"]);
    proxy.reconfigure(toBackend([backend.target], { limits: { bodyBytes: 4 } }));
    expect((await ask()).status).toBe(413);
    agent.destroy();

    const silent = await named("silent", (request) => void request.resume());
    proxy.reconfigure(toBackend([silent.target], { timeouts: { responseMs: 150 } }));
    expect((await fetchReply(port)).status).toBe(504);
  });

  it("may replace the admission; each admission settles the exchanges that it admitted", async () => {
    const go = signal();
    const backend = await named("backend", (request, response) => {
      if (request.url === "/slow") void go.promise.then(() => response.end("slow"));
      else response.end("quick");
    });
    const { port, proxy, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const slow = fetchReply(port, "/slow");
    await waitFor("the first to be admitted", () => admission.admitted.length === 1);
    const other = createTestAdmission(() => admitted());
    proxy.reconfigure({ ...toBackend([backend.target]), admission: other });
    await fetchReply(port, "/quick");
    await other.settlement();
    expect(admission.settled).toHaveLength(0);
    go.resolve();
    await slow;
    await admission.settlement();
    expect([admission.settled.length, other.settled.length]).toEqual([1, 1]);
  });

  it("start and stop health checks", async () => {
    let asked = 0;
    const patient = await named("patient", (request, response) => {
      if (request.url === "/health") asked++;
      response.statusCode = request.url === "/health" ? 500 : 200;
      response.end("patient");
    });
    const well = await named("well");
    const { port, proxy, lines } = await cleanup.add(startProxy({ targets: [patient.target, well.target] }));
    const active = { path: "/health", intervalMs: 10 };
    const asking = { backend: { targets: [patient.target, well.target], active } };
    proxy.reconfigure(toBackend([], { upstreams: asking }));
    await waitFor("failed checks", () => lines.some(({ message }) => message === "target failed its health checks"));
    for (let n = 0; n < 4; n++) expect((await fetchReply(port)).body).toBe("well");
    proxy.reconfigure(toBackend([], { upstreams: asking, limits: { headerCount: 60 } }));
    for (let n = 0; n < 4; n++) expect((await fetchReply(port)).body, "the health state is kept").toBe("well");
    proxy.reconfigure(toBackend([patient.target, well.target]));
    const bodies = new Set<string>();
    for (let n = 0; n < 4; n++) bodies.add((await fetchReply(port)).body);
    expect(bodies, "without health checks the target is used again").toEqual(new Set(["patient", "well"]));
    proxy.reconfigure(toBackend([well.target]));
    await waitFor("the removed target to have no connections", () => patient.open() === 0);
    const until = asked;
    await fetchReply(port);
    expect(asked).toBe(until);
  });
});

describe("discovered targets", () => {
  it("are set at run time; while an upstream has none, requests get 503", async () => {
    const [one, two] = [await named("one"), await named("two")];
    const settings: ProxyOptions = { routes: [{ path: "/", upstream: "pods" }], upstreams: { pods: {} } };
    const { port, proxy } = await cleanup.add(startProxy(settings));
    const none = await fetchReply(port);
    expect(none.status).toBe(503);
    expect(json(none)).toEqual({ error: "service_unavailable", reason: "no_target" });
    proxy.setTargets("pods", [one.target]);
    expect((await fetchReply(port)).body).toBe("one");
    proxy.reconfigure({ ...settings, limits: { headerCount: 50 } });
    expect((await fetchReply(port)).body, "new options keep discovered targets").toBe("one");
    proxy.setTargets("pods", [two.target]);
    expect((await fetchReply(port)).body).toBe("two");
    await waitFor("the first target to have no connections", () => one.open() === 0);
    expect(() => proxy.setTargets("pods", ["x/y"])).toThrow("invalid target");
    expect((await fetchReply(port)).body).toBe("two");
    proxy.setTargets("pods", []);
    expect((await fetchReply(port)).status).toBe(503);
  });
});

describe("connections", () => {
  it("are counted while they are open", async () => {
    const backend = await named("backend");
    const { port, proxy } = await cleanup.add(startProxy({ targets: [backend.target] }));
    expect(proxy.openConnections()).toBe(0);
    const clients = await Promise.all([openRaw(port), openRaw(port)]);
    await waitFor("two open connections", () => proxy.openConnections() === 2);
    for (const { socket } of clients) {
      socket.destroy();
      await once(socket, "close");
    }
    await waitFor("no open connections", () => proxy.openConnections() === 0);
  });
});
