/** TLS between the gateway and its targets: CA, name, validity, client certificate, and rotation under load. */
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import { request } from "undici";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import type { UpstreamOptions } from "../../../../src/config/options/proxy.js";
import { createTestAuthority, replace, type TestAuthority } from "../../../support/certificates.js";
import { type RunningProxy, startProxy } from "../../../support/http-proxy.js";
import { waitFor } from "../../../support/wait-for.js";

let authority: TestAuthority;
let other: TestAuthority;
const servers: Server[] = [];
const proxies: RunningProxy[] = [];
beforeAll(() => {
  authority = createTestAuthority();
  other = createTestAuthority("another CA");
});
afterEach(async () => {
  for (const proxy of proxies.splice(0)) await proxy.stop();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});
afterAll(() => {
  authority.remove();
  other.remove();
});

interface Backend {
  target: string;
  connections(): number;
  names: Set<string>;
}

/** Answers with the common name of the client's certificate. */
async function startBackend(pem: { cert: string; key: string }, requestCert = false): Promise<Backend> {
  const names = new Set<string>();
  const server = createServer({ ...pem, ca: authority.pem, requestCert, rejectUnauthorized: requestCert });
  let connections = 0;
  server.on("secureConnection", (socket) => {
    connections++;
    names.add(String((socket as { servername?: string }).servername));
  });
  server.on("request", (incoming, response) => {
    const { subject } = (incoming.socket as TLSSocket).getPeerCertificate();
    response.end(requestCert ? subject.CN : "ok");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  servers.push(server);
  const target = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { target, connections: () => connections, names };
}

async function start(upstream: UpstreamOptions): Promise<RunningProxy> {
  const proxy = await startProxy({ upstreams: { backend: upstream }, routes: [{ path: "/", upstream: "backend" }] });
  proxies.push(proxy);
  return proxy;
}

async function get({ port }: RunningProxy, host = "localhost"): Promise<string> {
  const { statusCode, body } = await request(`http://127.0.0.1:${port}/`, { headers: { host } });
  return `${statusCode} ${statusCode === 200 ? await body.text() : await body.dump().then(() => "")}`.trim();
}

it("a target is used only if its certificate is of the CA, has the name and is valid", async () => {
  const { target } = await startBackend(authority.issue("backend").pem);
  const expired = await startBackend(authority.expired("expired").pem);
  const { ca } = authority;
  expect(await get(await start({ targets: [target], tls: { ca } }))).toBe("200 ok");
  expect(await get(await start({ targets: [target], tls: { ca, name: "localhost" } }))).toBe("200 ok");
  expect(await get(await start({ targets: [target] }))).toBe("502");
  expect(await get(await start({ targets: [target], tls: { ca: other.ca } }))).toBe("502");
  expect(await get(await start({ targets: [target], tls: { ca, name: "backend.example" } }))).toBe("502");
  expect(await get(await start({ targets: [expired.target], tls: { ca } }))).toBe("502");
});

it("the certificate must match the target, not the Host that a client sends, and other Hosts use the same connection", async () => {
  const backend = await startBackend(authority.issue("backend").pem);
  const proxy = await start({
    targets: [backend.target],
    connections: 1,
    tls: { ca: authority.ca, name: "localhost" },
  });
  for (const host of ["evil.example", "localhost", "other.example", "127.0.0.1"]) {
    expect(await get(proxy, host)).toBe("200 ok");
  }
  expect([backend.connections(), [...backend.names]]).toEqual([1, ["localhost"]]);
  const wrong = await start({ targets: [backend.target], tls: { ca: authority.ca, name: "backend.example" } });
  expect(await get(wrong, "localhost")).toBe("502");
});

it("a target that requires a client certificate gets it, also from health checks", async () => {
  const { target } = await startBackend(authority.issue("backend").pem, true);
  const { ca } = authority;
  const own = authority.issue("gateway");
  const active = { path: "/", intervalMs: 20, healthyAfter: 1, unhealthyAfter: 1 };
  expect(await get(await start({ targets: [target], tls: { ca } }))).toBe("502");
  const proxy = await start({ targets: [target], active, tls: { ca, cert: own.cert, key: own.key } });
  expect(await get(proxy)).toBe("200 gateway");
  expect(proxy.lines.filter(({ message }) => message.includes("failed its health checks"))).toEqual([]);
});

it("rotates the client certificate under load: no request fails, and new connections use the new one", async () => {
  const { target } = await startBackend(authority.issue("backend").pem, true);
  const own = authority.issue("before");
  const proxy = await start({
    targets: [target],
    connections: 4,
    tls: { ca: authority.ca, cert: own.cert, key: own.key },
  });
  const seen = new Set<string>();
  let running = true;
  let count = 0;
  const load = Array.from({ length: 4 }, async () => {
    while (running) {
      seen.add(await get(proxy));
      count++;
    }
  });
  await waitFor("requests before", () => count > 50);
  const next = authority.issue("after").pem;
  replace(own.key, next.key);
  replace(own.cert, next.cert);
  await waitFor("the new files", () => proxy.lines.some(({ message }) => message.includes("new connections use them")));
  // The backend closes idle connections; the next ones are made with the new certificate.
  await waitFor("the new certificate", () => {
    servers.at(-1)!.closeIdleConnections();
    return seen.has("200 after");
  });
  running = false;
  await Promise.all(load);
  expect([...seen].sort()).toEqual(["200 after", "200 before"]);
});
