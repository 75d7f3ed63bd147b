/** The control listener: tokens, addresses, Host headers, and errors of requests. */
import { request } from "node:http";
import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import { ADMIN_TOKEN, type ControlServer, PLANE_TOKEN, startControl } from "../../../support/control-server.js";
import { waitFor } from "../../../support/wait-for.js";

const message = { node: "plane-1", epoch: 1, seq: 1, apps: [] };

let control: ControlServer;
beforeEach(async () => {
  control = await startControl(createEmbeddedStore(), { config: { control: { hosts: ["tollgate.internal"] } } });
});
afterEach(() => control.close());

/** Uses `request`, because fetch does not allow setting the Host header. */
function statusFor(host: string | undefined, path = "/health/live"): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = host === undefined ? {} : { host };
    const sent = request({ port: control.port, host: "127.0.0.1", path, headers, setHost: false, agent: false });
    sent.on("response", (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on("error", reject);
    sent.end();
  });
}

describe("authentication of data planes", () => {
  it.each([
    ["a missing token", {}],
    ["a wrong token", { authorization: "Bearer wrong-token-0123456789" }],
    ["the beginning of the right token", { authorization: `Bearer ${PLANE_TOKEN.slice(0, -1)}` }],
    ["an empty token", { authorization: "Bearer " }],
    ["the right token in another scheme", { authorization: `Basic ${PLANE_TOKEN}` }],
  ])("%s gets 401", async (_what, headers) => {
    const response = await fetch(`${control.url}/v1/sync`, { method: "POST", headers, body: JSON.stringify(message) });
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toBe("Bearer");
    const text = await response.text();
    expect(JSON.parse(text)).toMatchObject({ error: "unauthorized" });
    expect(text).not.toContain(PLANE_TOKEN);
  });

  it("a token that is not configured disables their API, and the reply says so", async () => {
    const off = await startControl(createEmbeddedStore(), { config: { control: { plane_token: "" } } });
    for (const authorization of ["Bearer ", `Bearer ${PLANE_TOKEN}`, ""]) {
      const response = await off.post(message, { authorization });
      expect(response.status).toBe(403);
      expect(await response.json()).toMatchObject({ reason: "plane_disabled" });
    }
    await off.close();
  });
});

describe("a client that does not wait for replies", () => {
  /** Sends all at once, and returns what was received until the connection ended or `isEnough`. */
  function pipelined(requests: string, isEnough: (received: string) => boolean): Promise<string> {
    return new Promise((resolve) => {
      let received = "";
      const socket = connect(control.port, "127.0.0.1", () => socket.write(requests));
      socket.on("data", (chunk) => {
        received += String(chunk);
        if (isEnough(received)) socket.destroy();
      });
      socket.on("error", () => {});
      socket.on("close", () => resolve(received));
    });
  }
  const get = (path: string) =>
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ADMIN_TOKEN}\r\n\r\n`;
  const replies = (received: string) => received.match(/HTTP\/1\.1 \d+/g) ?? [];

  it("gets them in order, one after the other", async () => {
    const all = get("/health/live") + get("/no-such-path") + get("/health/live");
    const received = await pipelined(all, (text) => replies(text).length === 3 && text.endsWith("}\n"));
    expect(replies(received)).toEqual(["HTTP/1.1 200", "HTTP/1.1 404", "HTTP/1.1 200"]);
  });

  it("has one live feed per connection, so that those of others are not used up", async () => {
    let [others, isStarted] = [0, false];
    const feed = get("/dashboard/events?view=overview");
    const received = pipelined(feed.repeat(20), (text) => {
      isStarted ||= text.includes("event: state");
      return others > 0;
    });
    await waitFor("the feed", () => isStarted);
    expect(control.viewers()).toBe(1);
    others = 1;
    expect(replies(await received)).toEqual(["HTTP/1.1 200"]);
  });

  it("is disconnected if too many requests wait", async () => {
    const feed = get("/dashboard/events?view=overview");
    const received = await pipelined(feed + get("/openapi.json").repeat(1_000), () => false);
    expect(replies(received).length).toBeLessThanOrEqual(1);
  });
});

describe("an address", () => {
  it("that is not allowed gets 403, except for health", async () => {
    const closed = await startControl(createEmbeddedStore(), {
      config: { control: { allow: ["10.0.0.0/8", "::1/128"] } },
    });
    const response = await closed.post(message);
    expect(response.status).toBe(403);
    expect(await response.json()).toMatchObject({ reason: "address_not_allowed" });
    expect((await fetch(`${closed.url}/health/live`)).status).toBe(200);
    await closed.close();
  });
});

describe("a hostile client", () => {
  it("cannot make the listener parse long queries, not even of health checks", async () => {
    const names = Array.from({ length: 500 }, (_, i) => `name${i}`).join("&");
    for (const path of ["/health/live", "/admin/ratelimit/apps"]) {
      const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
      const response = await fetch(`${control.url}${path}?${names}`, { headers });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        field: "query",
        reason: "query must have at most 2048 characters",
      });
    }
    const fewer = Array.from({ length: 200 }, (_, i) => `name${i}`).join("&");
    expect((await fetch(`${control.url}/health/live?${fewer}`)).status).toBe(200);
  });

  it("that does not complete its header is disconnected within seconds", async () => {
    const socket = connect(control.port, "127.0.0.1");
    let closed = false;
    socket.on("error", () => {});
    socket.on("close", () => (closed = true));
    socket.resume();
    socket.write("GET /health/live HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
    // Node checks every 30 s by default.
    await waitFor("the end of the connection", () => closed, { withinMs: 25_000 });
  });
});

describe("the Host header", () => {
  it.each([
    ["127.0.0.1", 200],
    ["127.0.0.1:9145", 200],
    ["[::1]:9145", 200],
    ["localhost", 200],
    ["LOCALHOST:80", 200],
    ["tollgate.internal", 200],
    ["evil.example", 403],
    ["127.0.0.1.evil.example", 403],
    ["localhost.evil.example", 403],
    ["[evil]", 403],
    ["", 403],
  ])("%j gets %i", async (host, status) => {
    expect(await statusFor(host)).toBe(status);
  });
});

describe("an invalid request", () => {
  it("is 404 in JSON", async () => {
    const response = await fetch(`${control.url}/nothing`);
    expect(response.status).toBe(404);
    expect(await response.json()).toEqual({ error: "not_found", reason: "no_such_endpoint" });
  });

  it("is 405 for another method", async () => {
    const response = await fetch(`${control.url}/v1/sync`);
    expect([response.status, response.headers.get("allow")]).toEqual([405, "POST"]);
  });

  it("is 415 for another media type", async () => {
    expect((await control.post("x", { "content-type": "application/x-www-form-urlencoded" })).status).toBe(415);
  });

  it("is 413 for a body beyond the limit, announced or not", async () => {
    const large = "x".repeat(300_000);
    expect((await control.post(large)).status).toBe(413);
    const stream = new ReadableStream({
      start(controller) {
        for (let i = 0; i < 30; i++) controller.enqueue(new TextEncoder().encode("x".repeat(10_000)));
        controller.close();
      },
    });
    const init = { method: "POST", body: stream, duplex: "half", headers: { authorization: `Bearer ${PLANE_TOKEN}` } };
    expect((await fetch(`${control.url}/v1/sync`, init as RequestInit)).status).toBe(413);
  });

  it("changes nothing when the client disconnects within its body", async () => {
    const head = `POST /v1/sync HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${PLANE_TOKEN}\r\nContent-Length: 50\r\n\r\n{`;
    await new Promise<void>((resolve) => {
      const socket = connect(control.port, "127.0.0.1", () => socket.write(head, () => socket.destroy()));
      socket.on("close", () => resolve());
    });
    expect((await control.post(message)).status).toBe(200);
    expect(control.logged).toEqual([]);
  });
});

describe("health", () => {
  it("live and ready reply as in the seeds", async () => {
    const live = await (await fetch(`${control.url}/health/live`)).json();
    expect(live).toEqual({ status: "healthy", timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT/) });
    const ready = await (await fetch(`${control.url}/health/ready`)).json();
    expect(ready).toEqual({
      ready: true,
      checks: { redis: "not_used", store: "ok", shared_memory: "ok", config_loaded: true },
      state: "running",
      timestamp: expect.any(String),
    });
  });
});
