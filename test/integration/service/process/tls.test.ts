/** TLS on the listeners of a real service: which connections are accepted, rotation under load, and invalid files. */
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect as connectHttp2 } from "node:http2";
import { join } from "node:path";
import { type ConnectionOptions, connect, type PeerCertificate } from "node:tls";
import { Agent, request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  createTestAuthority,
  replace,
  type TestAuthority,
  type TestCertificate,
} from "../../../support/certificates.js";
import {
  type GatewayProcess,
  PLANE_TOKEN,
  type SmallBackend,
  startGateway,
  startSmallBackend,
} from "../../../support/gateway-process.js";
import { readPage } from "../../../support/metrics-page.js";
import { freePort } from "../../../support/ports.js";
import { waitFor } from "../../../support/wait-for.js";

const endings: (() => unknown)[] = [];
let authority: TestAuthority;
let server: TestCertificate;
let backend: SmallBackend;
let service: GatewayProcess;
let envoyPort: number;
beforeAll(async () => {
  authority = createTestAuthority();
  endings.push(authority.remove);
  server = authority.issue("server");
  backend = await startSmallBackend();
  endings.push(() => backend.stop());
  envoyPort = await freePort();
  const tls = `cert: ${server.cert}, key: ${server.key}`;
  service = await startGateway(
    `
workers: 2
log: { level: info }
tls: { ${tls} }
envoy: { listen: "127.0.0.1:${envoyPort}", tls: { ${tls}, ca: ${authority.ca}, client_auth: required } }
apps: { default: { guaranteed: 100000, burst: 100000 } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`,
    {
      ca: authority.pem,
      controlTls: true,
      control: `plane_token: ${PLANE_TOKEN}, tls: { ${tls}, ca: ${authority.ca}, client_auth: optional }`,
    },
  );
  endings.push(() => service.stop());
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** The certificate of the server, or why there is no connection. Reads, because TLS 1.3 rejects a client after its handshake. */
function handshake(port: number, options: ConnectionOptions): Promise<PeerCertificate | string> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port, ca: authority.pem, ALPNProtocols: ["http/1.1"], ...options });
    let peer: PeerCertificate;
    socket.on("error", (error) => resolve(error.message));
    socket.on("close", () => resolve("closed"));
    socket.on("secureConnect", () => {
      peer = socket.getPeerCertificate();
      socket.write("GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    });
    socket.on("data", () => {
      resolve(peer);
      socket.destroy();
    });
  });
}

const portOf = (url: string) => Number(new URL(url).port);

it("clients get the certificate of the CA with the right name, over TLS 1.2 and 1.3 only; plaintext is not answered", async () => {
  for (const port of [portOf(service.url), portOf(service.controlUrl)]) {
    for (const maxVersion of ["TLSv1.2", "TLSv1.3"] as const) {
      expect(await handshake(port, { maxVersion })).toMatchObject({ subject: { CN: "server" } });
    }
    expect(await handshake(port, { minVersion: "TLSv1.1", maxVersion: "TLSv1.1" })).toMatch(/protocol|version/i);
    expect(await handshake(port, { ca: [] })).toMatch(/verify|self-signed/i);
    expect(await handshake(port, { servername: "other.example" })).toMatch(/other\.example/);
    await expect(request(`http://127.0.0.1:${port}/`)).rejects.toThrow();
  }
});

it("a listener that requires client certificates rejects connections without one, or of another CA", async () => {
  const other = createTestAuthority("another CA");
  const stranger = other.issue("stranger").pem;
  const expired = authority.expired("old-plane").pem;
  other.remove();
  expect(await handshake(envoyPort, authority.issue("edge-1").pem)).toMatchObject({ subject: { CN: "server" } });
  expect(await handshake(envoyPort, {})).toMatch(/certificate required|closed|ECONNRESET/i);
  expect(await handshake(envoyPort, stranger)).toMatch(/alert|closed|ECONNRESET/i);
  expect(await handshake(envoyPort, expired)).toMatch(/alert|closed|ECONNRESET/i);
  // Where they are optional, health checks work without.
  expect(await handshake(portOf(service.controlUrl), {})).toMatchObject({ subject: { CN: "server" } });
});

describe("a gateway that requires client certificates", () => {
  let gateway: GatewayProcess;
  let ca: string;
  beforeAll(async () => {
    // Other files than those of the service.
    const { cert, key } = authority.issue("gateway");
    ca = join(authority.dir, "clients-ca.pem");
    replace(ca, authority.pem);
    const tls = `cert: ${cert}, key: ${key}, ca: ${ca}, client_auth: required, http2: false`;
    const yaml = `
workers: 1
tls: { ${tls} }
apps: { default: { guaranteed: 100000, burst: 100000 } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;
    gateway = await startGateway(yaml, { ca: authority.pem, client: authority.issue("client").pem });
  });
  afterAll(() => gateway?.stop());

  it("rejects a missing, expired or foreign certificate, logs the reason, and counts them", async () => {
    const other = createTestAuthority("another CA");
    const stranger = other.issue("stranger").pem;
    other.remove();
    const port = portOf(gateway.url);
    const lines = () =>
      gateway
        .output()
        .split("\n")
        .filter((line) => line.includes("TLS handshake failed"));
    const cases: [ConnectionOptions, RegExp][] = [
      [{}, /PEER_DID_NOT_RETURN_A_CERTIFICATE/],
      [stranger, /client certificate rejected: .*(ISSUER|SIGNED|LEAF)/],
      [{ ...stranger, maxVersion: "TLSv1.2" }, /client certificate rejected: .*(ISSUER|SIGNED|LEAF)/],
      [authority.expired("old-client").pem, /client certificate rejected: .*EXPIRED/],
    ];
    for (const [options, reason] of cases) {
      const before = lines().length;
      expect(await handshake(port, options)).toMatch(/alert|closed|disconnected|ECONNRESET/i);
      await waitFor("the log line", () => lines().length > before);
      expect(lines().at(-1)).toMatch(reason);
      expect(lines().at(-1)).toContain('"client":"127.0.0.1"');
    }
    const page = await (await request(`${gateway.controlUrl}/metrics`)).body.text();
    expect(page).toMatch(/ratelimit_tls_handshake_failures_total\{listener="gateway"\} 4\n/);
    expect(await handshake(port, authority.issue("client").pem)).toMatchObject({ subject: { CN: "gateway" } });
  });

  it("logs at most five lines per second and process; the rest as a count", async () => {
    await Promise.all(Array.from({ length: 40 }, () => handshake(portOf(gateway.url), {})));
    await waitFor("the count", () => gateway.output().includes("more TLS handshakes failed in the same second"));
  });

  it("offers no HTTP/2 with http2: false", async () => {
    const options = { ...authority.issue("client").pem, ALPNProtocols: ["h2", "http/1.1"] };
    const socket = connect({ host: "127.0.0.1", port: portOf(gateway.url), ca: authority.pem, ...options });
    await once(socket, "secureConnect");
    expect(socket.alpnProtocol).toBe("http/1.1");
    socket.destroy();
  });

  it("rotates the CA of clients and its certificate under load without a failed request", async () => {
    const { cert, key } = authority.issue("client").pem;
    const dispatcher = new Agent({ connect: { ca: authority.pem, cert, key, maxCachedSessions: 0 }, pipelining: 0 });
    let running = true;
    let done = 0;
    const failed: unknown[] = [];
    const load = (async () => {
      while (running) {
        try {
          await (await request(`${gateway.url}/`, { dispatcher })).body.dump();
          done++;
        } catch (error) {
          failed.push(error);
        }
      }
    })();
    await waitFor("requests before", () => done > 10);
    const logged = () => gateway.output().split("TLS files changed").length - 1;
    const before = logged();
    const other = createTestAuthority("next CA");
    const next = other.issue("next").pem;
    replace(ca, `${authority.pem}\n${other.pem}`);
    authority.issue("gateway");
    await waitFor("the new files", () => logged() > before);
    const newClient = () => handshake(portOf(gateway.url), next);
    await waitFor("clients of the new CA", async () => typeof (await newClient()) !== "string");
    const count = done;
    await waitFor("requests after", () => done > count + 10);
    running = false;
    await load;
    await dispatcher.destroy();
    other.remove();
    expect(failed).toEqual([]);
  });
});

it("the listener for Envoy offers HTTP/2 over TLS", async () => {
  const session = connectHttp2(`https://127.0.0.1:${envoyPort}`, {
    ca: authority.pem,
    ...authority.issue("edge-1").pem,
  });
  const status = await new Promise((resolve, reject) => {
    session.on("error", reject);
    session.request({ ":path": "/healthcheck" }).on("response", (headers) => resolve(headers[":status"]));
  });
  expect([status, session.alpnProtocol]).toEqual([200, "h2"]);
  session.close();
});

it("the gateway offers HTTP/2", async () => {
  const session = connectHttp2(service.url, { ca: authority.pem });
  const status = await new Promise((resolve, reject) => {
    session.on("error", reject);
    session.request({ ":path": "/" }).on("response", (headers) => resolve(headers[":status"]));
  });
  expect([status, session.alpnProtocol]).toEqual([200, "h2"]);
  session.close();
});

it("requests pass through the gateway, and the control listener answers with a token", async () => {
  const dispatcher = new Agent({ connect: { ca: authority.pem } });
  const { statusCode } = await request(`${service.url}/`, { dispatcher });
  const sync = await request(`${service.controlUrl}/v1/sync`, {
    dispatcher,
    method: "POST",
    headers: { authorization: `Bearer ${PLANE_TOKEN}`, "content-type": "text/plain" },
    body: "edge-1 1 1\ndefault 0 0 0 1 1",
  });
  expect([statusCode, sync.statusCode]).toEqual([200, 200]);
  await dispatcher.destroy();
});

it("metrics show when the certificate of each section expires", async () => {
  const dispatcher = new Agent({ connect: { ca: authority.pem } });
  const { body } = await request(`${service.controlUrl}/metrics`, { dispatcher });
  const page = readPage(await body.text());
  const expiry = Date.parse(new X509Certificate(server.pem.cert).validTo) / 1000;
  for (const section of ["tls", "control.tls", "envoy.tls"]) {
    expect(page.value("ratelimit_certificate_expiry_timestamp_seconds", { section }), section).toBe(expiry);
  }
  await dispatcher.destroy();
});

it("rotates the certificate under load: no request fails; an invalid file is logged and changes nothing", async () => {
  const before = readFileSync(server.cert, "utf8");
  let running = true;
  let done = 0;
  const failed: unknown[] = [];
  const load = async (pipelining: number) => {
    // Without keep-alive every request is a new handshake.
    const dispatcher = new Agent({ connect: { ca: authority.pem, maxCachedSessions: 0 }, pipelining });
    while (running) {
      const answer = await request(`${service.url}/`, { dispatcher }).catch((error: unknown) => error);
      if (answer instanceof Error) failed.push(answer);
      else {
        await (answer as Awaited<ReturnType<typeof request>>).body.dump();
        done++;
      }
    }
    await dispatcher.destroy();
  };
  const loads = [load(0), load(0), load(1)];
  await waitFor("requests before", () => done > 50);
  authority.issue("server");
  const serial = async () => ((await handshake(portOf(service.url), {})) as PeerCertificate).serialNumber;
  const first = await serial();
  const logged = () => service.output().split("TLS files changed").length - 1;
  // Both workers, and the primary for the control listener; workers also have the listener for Envoy.
  await waitFor("all processes to use the new files", () => logged() >= 5);
  expect(readFileSync(server.cert, "utf8")).not.toBe(before);
  const renewed = await serial();
  authority.expired("server");
  await waitFor("the problem to be logged", () => service.output().includes("tls.cert: expired on"));
  expect(await serial()).toBe(renewed);
  authority.issue("server");
  await waitFor("the next files", () => logged() >= 10);
  expect(new Set([first, renewed, await serial()]).size).toBeGreaterThan(1);
  const count = done;
  await waitFor("requests after", () => done > count + 50);
  running = false;
  await Promise.all(loads);
  expect(failed).toEqual([]);
});
