/** Selection of the upstream and target of a request by route, load and health, and retries on another target. */
import type { RequestListener } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import { type Backend, startBackend, startRawBackend } from "../../../support/http-backend.js";
import { fetchReply, json } from "../../../support/http-client.js";
import { createCleanup, startProxy } from "../../../support/http-proxy.js";
import { signal } from "../../../support/http-signal.js";
import { freePort } from "../../../support/ports.js";
import { waitFor } from "../../../support/wait-for.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

const named =
  (name: string): RequestListener =>
  (request, response) =>
    void request.resume().on("end", () => response.end(name));
const NOBODY = "127.0.0.1:1";

async function counted(listener: RequestListener): Promise<Backend & { requests(): number }> {
  let requests = 0;
  const backend = await cleanup.add(
    startBackend((request, response) => {
      requests++;
      listener(request, response);
    }),
  );
  return { ...backend, requests: () => requests };
}

describe("routes", () => {
  it("match by host and by the longest prefix; requests without a route get 404", async () => {
    const one = await cleanup.add(startBackend(named("one")));
    const two = await cleanup.add(startBackend(named("two")));
    const { port, admission } = await cleanup.add(
      startProxy({
        upstreams: { one: { targets: [one.target] }, two: { targets: [two.target] } },
        routes: [
          { path: "/api/", upstream: "one" },
          { path: "/api/v2/", upstream: "two" },
          { path: "/", host: "shop.example", upstream: "two" },
        ],
      }),
    );
    const ask = async (path: string, host = "any") => (await fetchReply(port, path, { headers: { host } })).body;
    expect(await ask("/api/x")).toBe("one");
    expect(await ask("/api/v2/x?q")).toBe("two");
    expect(await ask("/api/x", "SHOP.example:8080")).toBe("two");
    const lost = await fetchReply(port, "/other");
    expect(lost.status).toBe(404);
    expect(json(lost)).toEqual({ error: "not_found", reason: "no_route" });
    expect(await ask("/api/v2/%2e%2e/x"), "routed by the resolved path").toBe("one");
    expect((await fetchReply(port, "/api/v2/..%2fx")).status, "an encoded slash would be ambiguous").toBe(400);
    expect(admission.arrivals).toHaveLength(4);
  });

  it("and upstreams that are invalid are rejected at startup", async () => {
    await expect(startProxy({ routes: [{ path: "/", upstream: "nowhere" }], targets: [NOBODY] })).rejects.toThrow(
      "nowhere",
    );
    await expect(startProxy({ targets: [] })).rejects.toThrow("no targets");
    await expect(startProxy({ targets: ["127.0.0.1:1/path"] })).rejects.toThrow("invalid target");
    await expect(startProxy({ targets: [NOBODY], trustedHops: ["banana"] })).rejects.toThrow("invalid network");
  });
});

describe("load balancing", () => {
  it("selects the target with the fewest running requests, and alternates between equal targets", async () => {
    const held = signal();
    const busy = signal();
    const slow = await counted((_, response) => {
      busy.resolve();
      void held.promise.then(() => response.end("slow"));
    });
    const quick = await counted((_, response) => response.end("quick"));
    const { port } = await cleanup.add(startProxy({ targets: [slow.target, quick.target] }));
    const waiting = fetchReply(port);
    await busy.promise;
    for (let n = 0; n < 5; n++) expect((await fetchReply(port)).body).toBe("quick");
    held.resolve();
    expect((await waiting).body).toBe("slow");
    const bodies = [];
    for (let n = 0; n < 4; n++) bodies.push((await fetchReply(port)).body);
    expect(bodies.sort()).toEqual(["quick", "quick", "slow", "slow"]);
  });
});

describe("a retry", () => {
  it("uses another target if the first is unreachable, even for a request with a body", async () => {
    const good = await cleanup.add(startBackend(named("good")));
    const { port, admission, lines } = await cleanup.add(startProxy({ targets: [NOBODY, good.target] }));
    for (const options of [{}, { method: "POST", body: "abc" }]) {
      // Targets alternate, so one of the two requests tries the unreachable target first.
      for (let n = 0; n < 2; n++) expect((await fetchReply(port, "/", options)).body).toBe("good");
    }
    expect(admission.settled.map(({ requestBytes }) => requestBytes)).toEqual([0, 0, 3, 3]);
    expect(lines.filter(({ retry_on }) => retry_on === `http://${good.target}`).length).toBeGreaterThan(0);
  });

  it("uses another target if the first fails before its response, but only for idempotent requests without a body", async () => {
    const good = await counted(named("good"));
    const breaking = await cleanup.add(startRawBackend((socket) => socket.once("data", () => socket.destroy())));
    const { port } = await cleanup.add(
      startProxy({ targets: [breaking.target, good.target], upstream: { passive: { failures: 100 } } }),
    );
    for (let n = 0; n < 4; n++) expect((await fetchReply(port)).body).toBe("good");
    expect(breaking.connections()).toBeGreaterThan(0);
    const before = good.requests();
    const posts = [];
    for (let n = 0; n < 4; n++) posts.push((await fetchReply(port, "/", { method: "POST" })).status);
    expect(posts.sort(), "a request that is not idempotent is not repeated").toEqual([200, 200, 502, 502]);
    expect(good.requests() - before).toBe(2);
    const puts = [];
    for (let n = 0; n < 4; n++) puts.push((await fetchReply(port, "/", { method: "PUT", body: "abc" })).status);
    expect(puts.sort(), "a request whose body was sent is not repeated").toEqual([200, 200, 502, 502]);
  });

  it("uses the same target if there is no other and a reused connection was stale", async () => {
    let accepted = 0;
    const backend = await cleanup.add(
      startRawBackend((socket) => {
        const first = accepted++ === 0;
        let answered = false;
        socket.on("data", () => {
          if (first && answered) socket.destroy();
          else socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
          answered = true;
        });
      }),
    );
    const { port } = await cleanup.add(startProxy({ targets: [backend.target] }));
    expect((await fetchReply(port)).body).toBe("ok");
    expect((await fetchReply(port)).body).toBe("ok");
    expect(accepted).toBe(2);
  });

  it("is not made after the first byte of a response, and never more than once", async () => {
    const starting = await cleanup.add(
      startRawBackend((socket) => socket.once("data", () => socket.end("HTTP/1.1 2"))),
    );
    const one = await cleanup.add(startProxy({ targets: [starting.target, starting.target] }));
    expect((await fetchReply(one.port)).status).toBe(502);
    expect(starting.connections()).toBe(1);
    const breaking = await cleanup.add(startRawBackend((socket) => socket.once("data", () => socket.destroy())));
    const two = await cleanup.add(startProxy({ targets: Array(5).fill(breaking.target) }));
    expect((await fetchReply(two.port)).status).toBe(502);
    expect(breaking.connections()).toBe(2);
  });
});

describe("target health", () => {
  it("skips a target that keeps failing; if all targets fail, they are used anyway", async () => {
    const breaking = await cleanup.add(startRawBackend((socket) => socket.once("data", () => socket.destroy())));
    const good = await cleanup.add(startBackend(named("good"), await freePort()));
    const { port, lines } = await cleanup.add(
      startProxy({ targets: [breaking.target, good.target], upstream: { passive: { failures: 2, downMs: 60_000 } } }),
    );
    const post = () => fetchReply(port, "/", { method: "POST" });
    await waitFor("two failures", async () => {
      await post();
      return breaking.connections() === 2;
    });
    for (let n = 0; n < 6; n++) expect((await post()).status).toBe(200);
    expect(breaking.connections()).toBe(2);
    expect(lines).toContainEqual(expect.objectContaining({ message: "target is skipped" }));
    await good.stop();
    await waitFor("the failing target to be used again", async () => {
      await post();
      return breaking.connections() > 2;
    });
    await cleanup.add(startBackend(named("good"), good.port));
    await waitFor("the working target to be used again", async () => (await post()).status === 200);
  });

  it("is checked if a path is configured: failing targets are skipped, and recovered targets are used again", async () => {
    let well = false;
    const patient = await cleanup.add(
      startBackend((request, response) => {
        if (request.url === "/health") response.statusCode = well ? 204 : 500;
        response.end("patient");
      }),
    );
    const other = await cleanup.add(startBackend(named("other")));
    const { port, lines } = await cleanup.add(
      startProxy({
        targets: [patient.target, other.target],
        upstream: { active: { path: "/health", intervalMs: 20, unhealthyAfter: 2, healthyAfter: 2 } },
      }),
    );
    const said = (message: string) => waitFor(message, () => lines.some((line) => line.message === message));
    await said("target failed its health checks");
    for (let n = 0; n < 4; n++) expect((await fetchReply(port)).body).toBe("other");
    well = true;
    await said("target passed its health checks");
    const bodies = new Set<string>();
    for (let n = 0; n < 4; n++) bodies.add((await fetchReply(port)).body);
    expect([...bodies].sort()).toEqual(["other", "patient"]);
  });
});
