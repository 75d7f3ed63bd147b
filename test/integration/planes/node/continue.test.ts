/** Expect: 100-continue: the proxy requests the client's body only after the decision and once the backend is connected. */
import { once } from "node:events";
import { afterEach, describe, expect, it } from "vitest";
import { type Mirrored, mirror, startBackend } from "../../../support/http-backend.js";
import { bodyOf, fetchReply, json, open, openRaw, replyTo, sendRaw, statusOf } from "../../../support/http-client.js";
import { createCleanup, refused, startProxy } from "../../../support/http-proxy.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());
const expecting = { method: "POST", headers: { Expect: "100-continue", "Content-Length": "4" } };

describe("a client that sends Expect: 100-continue", () => {
  it("gets 100 once the backend is connected, and the backend does not receive the Expect header", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const request = open(port, expecting);
    const replied = replyTo(request);
    request.flushHeaders();
    await once(request, "continue");
    expect(admission.settled).toHaveLength(0);
    request.end("body");
    const seen = json<Mirrored>(await replied);
    expect(seen.body).toBe("body");
    expect(seen.rawHeaders.join().toLowerCase()).not.toContain("expect");
    expect(await admission.settlement()).toMatchObject({ requestBytes: 4 });
  });

  it("gets a refusal without a 100 before it", async () => {
    const { port } = await cleanup.add(startProxy({ targets: ["127.0.0.1:1"], decide: () => refused() }));
    const text = await sendRaw(port, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    expect(statusOf(text)).toBe(429);
    expect(text).toMatch(/\r\nConnection: close\r\n/);
  });

  it("gets 502 and no 100 when the backend is unreachable", async () => {
    const { port, admission } = await cleanup.add(startProxy({ targets: ["127.0.0.1:1"] }));
    const text = await sendRaw(port, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    expect(statusOf(text)).toBe(502);
    expect(await admission.settlement()).toMatchObject({ requestBytes: 0, responseBytes: 0 });
  });

  it("may send the body without waiting for the 100", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const reply = await fetchReply(port, "/", { ...expecting, body: "body" });
    expect(json<Mirrored>(reply).body).toBe("body");
  });

  it("gets 417 for any other expectation", async () => {
    const { port, admission } = await cleanup.add(startProxy({ targets: ["127.0.0.1:1"] }));
    const client = await openRaw(port);
    client.write("POST / HTTP/1.1\r\nHost: a\r\nExpect: the-moon\r\nContent-Length: 4\r\n\r\n");
    const text = await client.closed();
    expect(statusOf(text)).toBe(417);
    expect(JSON.parse(bodyOf(text))).toEqual({ error: "expectation_failed", reason: "unknown_expectation" });
    expect(admission.arrivals).toHaveLength(0);
  });
});
