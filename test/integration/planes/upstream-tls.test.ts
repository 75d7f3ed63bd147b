/** nginx and Envoy verify the certificates of https targets: CA, name, validity; present their own; and rotation under load. */
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestAuthority, replace, type TestAuthority } from "../../support/certificates.js";
import { describeEnvoy } from "../../support/envoy-binary.js";
import { startEnvoy } from "../../support/envoy-process.js";
import { startNginx } from "../../support/nginx-process.js";
import { waitFor } from "../../support/wait-for.js";

const endings: (() => unknown)[] = [];
let authority: TestAuthority;
let yaml: string;

beforeAll(async () => {
  authority = createTestAuthority();
  const other = createTestAuthority("another CA");
  const target = await startBackend(authority.issue("backend").pem, false);
  const strict = await startBackend(authority.issue("strict").pem, true);
  const expired = await startBackend(authority.expired("expired").pem, false);
  const own = authority.issue("proxy");
  const good = `ca: ${authority.ca}, name: localhost`;
  const upstreams = {
    good: [target, good],
    "wrong-ca": [target, `ca: ${other.ca}, name: localhost`],
    "wrong-name": [target, `ca: ${authority.ca}, name: backend.example`],
    expired: [expired, good],
    "no-certificate": [strict, good],
    certificate: [strict, `${good}, cert: ${own.cert}, key: ${own.key}`],
  };
  const names = Object.entries(upstreams);
  yaml = `
apps: { default: { guaranteed: 1000, on_store_failure: open } }
upstreams:
${names.map(([name, [at, tls]]) => `  ${name}: { targets: ["${at}"], tls: { ${tls} } }`).join("\n")}
routes:
${names.map(([name]) => `  - { path: /${name}/, upstream: ${name} }`).join("\n")}
`;
  endings.push(authority.remove, other.remove);
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

async function startBackend(pem: { cert: string; key: string }, requestCert: boolean): Promise<string> {
  const options = { ...pem, ca: authority.pem, requestCert, rejectUnauthorized: requestCert };
  return listen(createServer(options, (_, response) => response.end("ok")));
}

async function listen(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  endings.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/**
 * Both sides get certificates of a second CA while requests pass. `loaded` resolves when the plane trusts a certificate, or
 * presents it.
 */
async function rotate(start: (yaml: string) => Promise<{ url: string; loaded(serial: string): Promise<unknown> }>) {
  const second = createTestAuthority("second CA");
  const { cert, key } = authority.issue("before");
  const ca = join(authority.dir, "target-ca.pem");
  replace(ca, authority.pem);
  const both = `${authority.pem}\n${second.pem}`;
  // Replies with the name in the certificate of the plane. Every request is a new connection.
  const server = createServer(
    { ...authority.issue("target").pem, ca: both, requestCert: true },
    (incoming, response) => {
      const name = (incoming.socket as TLSSocket).getPeerCertificate().subject.CN;
      response.writeHead(200, { connection: "close" }).end(name);
    },
  );
  const target = await listen(server);
  const { url, loaded } = await start(`
apps: { default: { guaranteed: 100000, burst: 100000, on_store_failure: open } }
upstreams: { target: { targets: ["${target}"], tls: { ca: ${ca}, name: localhost, cert: ${cert}, key: ${key} } } }
routes: [{ path: /, upstream: target }]
`);
  const seen = new Map<string, number>();
  let running = true;
  const load = Array.from({ length: 3 }, async () => {
    while (running) {
      const { statusCode, body } = await request(`${url}/`, { reset: true });
      const reply = `${statusCode} ${await body.text()}`;
      seen.set(reply, (seen.get(reply) ?? 0) + 1);
    }
  });
  const more = async (reply: string) => {
    const before = seen.get(reply) ?? 0;
    await waitFor(`more replies "${reply}"`, () => (seen.get(reply) ?? 0) > before + 20);
  };
  await more("200 before");
  replace(ca, both);
  await loaded(new X509Certificate(second.pem).serialNumber);
  server.setSecureContext({ ...second.issue("target").pem, ca: both });
  await more("200 before");
  const next = second.issue("after").pem;
  replace(key, next.key);
  replace(cert, next.cert);
  await loaded(new X509Certificate(next.cert).serialNumber);
  await more("200 after");
  running = false;
  await Promise.all(load);
  second.remove();
  expect([...seen.keys()].sort()).toEqual(["200 after", "200 before"]);
}

/** Which upstreams answer 200. nginx hides the reason of others in a 400 or 502, Envoy in a 503. */
async function answering(url: string): Promise<string[]> {
  const found: string[] = [];
  for (const [, name] of yaml.matchAll(/path: \/(.*?)\//g)) {
    const { statusCode, body } = await request(`${url}/${name}/`);
    if (statusCode === 200 && (await body.text()) === "ok") found.push(name!);
    else await body.dump();
  }
  return found;
}

describe("nginx", () => {
  it("passes requests only to targets with a valid certificate", async () => {
    const nginx = await startNginx(yaml, { services: ["127.0.0.1:9"] });
    endings.push(() => nginx.stop());
    expect(await answering(nginx.url)).toEqual(["good", "certificate"]);
  });

  it("rotates the certificates of both sides under load without a failed request", () =>
    rotate(async (own) => {
      const nginx = await startNginx(own, { services: ["127.0.0.1:9"] });
      endings.push(() => nginx.stop());
      const reloaded = async () => {
        const old = nginx.workers();
        await nginx.reload();
        // They still serve requests that arrived before, with the old files.
        await waitFor("the old workers to end", () => old.every((pid) => !existsSync(`/proc/${pid}`)));
      };
      return { url: nginx.url, loaded: reloaded };
    }));
});

describeEnvoy("Envoy", () => {
  it("passes requests only to targets with a valid certificate", async () => {
    const envoy = await startEnvoy(yaml, { services: ["127.0.0.1:9"] });
    endings.push(() => envoy.stop());
    expect(await answering(envoy.url)).toEqual(["good", "certificate"]);
  });

  it("rotates the certificates of both sides under load without a failed request", () =>
    rotate(async (own) => {
      const envoy = await startEnvoy(own, { services: ["127.0.0.1:9"] });
      endings.push(() => envoy.stop());
      const isLoaded = async (serial: string) => (await envoy.admin("/certs")).includes(`"${serial.toLowerCase()}"`);
      return { url: envoy.url, loaded: (serial) => waitFor("Envoy to read it", () => isLoaded(serial)) };
    }));
});
