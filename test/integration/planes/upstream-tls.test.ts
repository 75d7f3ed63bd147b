/** nginx and Envoy verify the certificates of https targets: CA, name, validity, and present their own. */
import { once } from "node:events";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestAuthority, type TestAuthority } from "../../support/certificates.js";
import { describeEnvoy } from "../../support/envoy-binary.js";
import { startEnvoy } from "../../support/envoy-process.js";
import { startNginx } from "../../support/nginx-process.js";

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
  const server = createServer(options, (_, response) => response.end("ok")).listen(0, "127.0.0.1");
  await once(server, "listening");
  endings.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
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
});

describeEnvoy("Envoy", () => {
  it("passes requests only to targets with a valid certificate", async () => {
    const envoy = await startEnvoy(yaml, { services: ["127.0.0.1:9"], envoyServices: ["127.0.0.1:9"] });
    endings.push(() => envoy.stop());
    expect(await answering(envoy.url)).toEqual(["good", "certificate"]);
  });
});
