/** Header handling: hop-by-hop headers are removed, and forwarding headers are kept only from trusted hops. */
import type { OutgoingHttpHeaders } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import { type Mirrored, mirror, startBackend, startBytesBackend, valuesIn } from "../../../support/http-backend.js";
import { bodyOf, fetchReply, json, sendRaw } from "../../../support/http-client.js";
import { admitted, createCleanup, startProxy, type TestProxyOptions } from "../../../support/http-proxy.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

async function seenByBackend(headers: OutgoingHttpHeaders, options: TestProxyOptions = {}): Promise<string[]> {
  const backend = await cleanup.add(startBackend(mirror));
  const { port } = await cleanup.add(startProxy({ targets: [backend.target], ...options }));
  return json<Mirrored>(await fetchReply(port, "/", { headers })).rawHeaders;
}

async function seenByClient(response: string, options: TestProxyOptions = {}): Promise<string[]> {
  const backend = await cleanup.add(startBytesBackend(response));
  const { port } = await cleanup.add(startProxy({ targets: [backend.target], ...options }));
  return (await fetchReply(port)).rawHeaders;
}

describe("a request's headers", () => {
  it("are passed on without the hop-by-hop headers of the client's connection", async () => {
    const seen = await seenByBackend({
      Connection: "keep-alive, X-Private, Content-Length, Host",
      "Keep-Alive": "timeout=9",
      "Proxy-Authorization": "Basic secret",
      "Proxy-Connection": "keep-alive",
      TE: "deflate",
      Upgrade: "x",
      "X-Private": "1",
      "X-Public": "2",
    });
    const names = seen.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase());
    expect(names.sort()).toEqual(
      ["connection", "host", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-public"].sort(),
    );
    expect(valuesIn(seen, "connection")).toEqual(["keep-alive"]);
  });

  it("keep their order, case and repetitions", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const text = await sendRaw(
      port,
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-b: 1\r\nx-A: \xe9\r\nX-B: 2\r\nCookie: a=b\r\nCookie: c=d\r\n\r\n",
    );
    const { rawHeaders } = JSON.parse(bodyOf(text)) as Mirrored;
    const at = rawHeaders.indexOf("X-b");
    // The mirror's JSON is UTF-8, but `sendRaw` decodes it as latin1.
    const own = rawHeaders.slice(at, at + 10);
    expect(own.map((part) => Buffer.from(part, "latin1").toString("utf8"))).toEqual([
      ..."X-b 1 x-A \xe9 X-B 2 Cookie a=b Cookie c=d".split(" "),
    ]);
  });

  it("describe the client as the proxy sees it; forwarding headers of untrusted clients are replaced", async () => {
    const claims = {
      Host: "shop.example",
      "X-Forwarded-For": "1.2.3.4",
      "X-Forwarded-Proto": "https",
      "X-Forwarded-Host": "bank.example",
      Forwarded: "for=1.2.3.4",
      Via: "1.1 cdn",
    };
    const seen = await seenByBackend(claims);
    expect(valuesIn(seen, "x-forwarded-for")).toEqual(["127.0.0.1"]);
    expect(valuesIn(seen, "x-forwarded-proto")).toEqual(["http"]);
    expect(valuesIn(seen, "x-forwarded-host")).toEqual(["shop.example"]);
    expect(valuesIn(seen, "forwarded")).toEqual([]);
    expect(valuesIn(seen, "via")).toEqual(["1.1 cdn", "1.1 tollgate"]);
    expect(valuesIn(seen, "host")).toEqual(["shop.example"]);
  });

  it("keep the forwarding headers of a trusted hop", async () => {
    const claims = {
      "X-Forwarded-For": "1.2.3.4",
      "X-Forwarded-Proto": "https",
      "X-Forwarded-Host": "bank.example",
      Forwarded: "for=1.2.3.4",
    };
    const seen = await seenByBackend(claims, { trustedHops: ["10.0.0.0/8", "127.0.0.0/8"] });
    expect(valuesIn(seen, "x-forwarded-for")).toEqual(["1.2.3.4, 127.0.0.1"]);
    expect(valuesIn(seen, "x-forwarded-proto")).toEqual(["https"]);
    expect(valuesIn(seen, "x-forwarded-host")).toEqual(["bank.example"]);
    expect(valuesIn(seen, "forwarded")).toEqual(["for=1.2.3.4"]);
    expect(valuesIn(seen, "via")).toEqual(["1.1 tollgate"]);
  });

  it("have the target as Host if the upstream sets passHost to false", async () => {
    const seen = await seenByBackend({ Host: "shop.example" }, { upstream: { passHost: false } });
    expect(valuesIn(seen, "host")[0]).toMatch(/^127\.0\.0\.1:\d+$/);
    expect(valuesIn(seen, "x-forwarded-host")).toEqual(["shop.example"]);
  });
});

describe("a response's headers", () => {
  it("are passed on without the hop-by-hop headers of the backend's connection, and repeated headers are kept", async () => {
    const seen = await seenByClient(
      "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Private\r\nKeep-Alive: timeout=9\r\nX-Private: 1\r\n" +
        "Proxy-Authenticate: Basic\r\nSet-Cookie: a=1; Expires=Thu, 01 Jan 1970\r\nSet-Cookie: b=2\r\nVia: 1.0 cache\r\n" +
        "Server: real\r\nContent-Length: 0\r\n\r\n",
    );
    expect(valuesIn(seen, "set-cookie")).toEqual(["a=1; Expires=Thu, 01 Jan 1970", "b=2"]);
    expect(valuesIn(seen, "x-private")).toEqual([]);
    expect(valuesIn(seen, "proxy-authenticate")).toEqual([]);
    expect(valuesIn(seen, "keep-alive")).not.toContain("timeout=9");
    expect(valuesIn(seen, "via")).toEqual(["1.0 cache", "1.1 tollgate"]);
    expect(valuesIn(seen, "server")).toEqual(["real"]);
  });

  it("contain the headers of the decision, which replace the backend's headers of the same name", async () => {
    const verdict = admitted({ "X-RateLimit-Remaining": "7", RateLimit: '"app";r=7;t=1' });
    const seen = await seenByClient(
      "HTTP/1.1 200 OK\r\nx-ratelimit-remaining: 999\r\nRATELIMIT: x\r\nX-RateLimit-Other: kept\r\n" +
        "Connection: X-RateLimit-Remaining\r\nContent-Length: 0\r\n\r\n",
      { decide: () => verdict },
    );
    expect(valuesIn(seen, "x-ratelimit-remaining")).toEqual(["7"]);
    expect(valuesIn(seen, "ratelimit")).toEqual(['"app";r=7;t=1']);
    expect(valuesIn(seen, "x-ratelimit-other")).toEqual(["kept"]);
  });

  it("contain the headers of the decision even if the proxy generates the response", async () => {
    const { port } = await cleanup.add(
      startProxy({ targets: ["127.0.0.1:1"], decide: () => admitted({ "X-RateLimit-Cost": "3" }) }),
    );
    const reply = await fetchReply(port);
    expect(reply.status).toBe(502);
    expect(reply.headers["x-ratelimit-cost"]).toBe("3");
  });
});
