/** nginx and Envoy call the service over mutual TLS: what is rejected, rotation under load, and that Envoy hides the token. */
import { once } from "node:events";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { ServiceTls } from "../../../src/render/common.js";
import { createTestAuthority, type TestAuthority, type TestCertificate } from "../../support/certificates.js";
import { describeEnvoy } from "../../support/envoy-binary.js";
import { type EnvoyProcess, envoyPlane, startEnvoy } from "../../support/envoy-process.js";
import {
  type GatewayProcess,
  PLANE_TOKEN,
  type SmallBackend,
  startGateway,
  startSmallBackend,
} from "../../support/gateway-process.js";
import { nginxPlane, startNginx } from "../../support/nginx-process.js";
import { freePort } from "../../support/ports.js";
import { waitFor } from "../../support/wait-for.js";

const BURST = 5;
const endings: (() => unknown)[] = [];
let authority: TestAuthority;
let other: TestAuthority;
let server: TestCertificate;
let client: TestCertificate;
let backend: SmallBackend;
let service: GatewayProcess;
let envoyListen: string;
let control: string;

const limits = () => `
workers: 1
lease: { timeout_ms: 2000 }
apps:
  default: { guaranteed: 1000000, burst: 1000000, on_store_failure: closed }
  small: { guaranteed: 0.001, burst: ${BURST}, profile: { based_on: iops, bandwidth: 0 }, on_store_failure: closed }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;

const tlsOfServer = () =>
  `tls: { cert: ${server.cert}, key: ${server.key}, ca: ${authority.ca}, client_auth: required }`;

beforeAll(async () => {
  nginxPlane();
  envoyPlane();
  authority = createTestAuthority();
  other = createTestAuthority("another CA");
  endings.push(authority.remove, other.remove);
  server = authority.issue("server");
  client = authority.issue("edge-1");
  backend = await startSmallBackend();
  endings.push(() => backend.stop());
  envoyListen = `127.0.0.1:${await freePort()}`;
  const tls = tlsOfServer();
  control = `planes: { edge-1: [], edge-2: [] }, ${tls}`;
  service = await startGateway(`${limits()}\nenvoy: { listen: "${envoyListen}", ${tls} }\n`, {
    controlTls: true,
    control: `plane_token: ${PLANE_TOKEN}, ${control}`,
  });
  endings.push(() => service.stop());
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

const planes: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  for (const plane of planes.splice(0)) await plane.stop();
});

type Kind = "nginx" | "Envoy";

interface Plane {
  url: string;
  dir: string;
  reload(yaml?: string): Promise<void>;
  stop(): Promise<void>;
}

const good = (): ServiceTls => ({
  ca: authority.ca,
  name: "localhost",
  client: { certificate: client.cert, key: client.key },
});

interface StartOptions {
  place?: string;
  node?: string;
  mode?: "module" | "rls";
}

async function start(
  kind: Kind,
  serviceTls: ServiceTls,
  { place, node = "edge-1", mode = "module" }: StartOptions = {},
): Promise<Plane> {
  const common = { services: [place ?? new URL(service.controlUrl).host], serviceTls, control, node };
  const plane: Plane =
    kind === "nginx"
      ? await startNginx(limits(), common)
      : await startEnvoy(`${limits()}envoy: { listen: "127.0.0.1:1", ${tlsOfServer()} }\n`, {
          ...common,
          mode,
          envoyServices: mode === "rls" ? [envoyListen] : [],
        });
  planes.push(plane);
  return plane;
}

/** On a new connection: a reload of nginx closes idle ones, and a client must be prepared for that. */
async function statusOf(plane: Plane, app = "default"): Promise<number> {
  const { statusCode, body } = await request(`${plane.url}/`, { headers: { "x-app-id": app }, reset: true });
  await body.dump();
  return statusCode;
}

/** The content of all rendered files. */
function filesOf({ dir }: Plane): string {
  const names = readdirSync(dir).filter((name) => /\.(conf|lua|yaml)$/.test(name));
  return names.map((name) => readFileSync(join(dir, name), "utf8")).join("\n");
}

/** Like a service, with an expired certificate. The service itself would not start with one. */
async function expiredService(): Promise<string> {
  const { pem } = authority.expired("expired");
  const stranger = createServer(pem, (_, response) => response.end()).listen(0, "127.0.0.1");
  await once(stranger, "listening");
  endings.push(() => stranger.close());
  return `127.0.0.1:${(stranger.address() as AddressInfo).port}`;
}

function suite(kind: Kind): void {
  it("enforces limits through the service", async () => {
    const plane = await start(kind, good());
    await waitFor("the service to answer", async () => (await statusOf(plane)) === 200);
    const seen: number[] = [];
    // The limit is shared by all planes of this file: at some point it is used up.
    await waitFor("a refusal", async () => seen.push(await statusOf(plane, "small")) > 0 && seen.includes(429));
    expect(seen.filter((status) => status === 200).length).toBeLessThanOrEqual(BURST);
  });

  it("does not talk to a service with a certificate of another CA, another name or an expired one, nor without its own", async () => {
    const { name: _, ...withoutName } = good();
    const cases: [ServiceTls, string?][] = [
      [{ ...good(), ca: other.ca }],
      [{ ...withoutName, name: "service.example" }],
      [{ ...good(), client: undefined }],
      [{ ...good(), client: { certificate: other.issue("stranger").cert, key: other.issue("stranger").key } }],
      [good(), await expiredService()],
    ];
    for (const [tls, place] of cases) {
      // Only a node of no plane may use the common token without a certificate.
      const node = tls.client === undefined ? "unlisted" : "edge-1";
      const plane = await start(kind, tls, { node, ...(place === undefined ? {} : { place }) });
      // The app is closed without the store.
      expect([await statusOf(plane), await statusOf(plane)]).toEqual([503, 503]);
      await plane.stop();
    }
  });

  it("is identified by its certificate: it needs no token, and cannot act for another plane", async () => {
    const own = await start(kind, good());
    await waitFor("the service to answer", async () => (await statusOf(own)) === 200);
    expect(filesOf(own)).not.toContain(PLANE_TOKEN);
    const refused = () => service.output().match(/"plane":"edge-1".*"why":"wrong_plane"/g)?.length ?? 0;
    const before = refused();
    const other = await start(kind, good(), { node: "edge-2" });
    await waitFor("the refusal to be logged", async () => {
      // The app is closed without the service.
      expect(await statusOf(other)).toBe(503);
      return refused() > before;
    });
    expect(await statusOf(other)).toBe(503);
    expect(await statusOf(own)).toBe(200);
  });

  it("rotates the certificates of both sides under load without a failed request", async () => {
    const plane = await start(kind, good());
    await waitFor("the service to answer", async () => (await statusOf(plane)) === 200);
    const seen = new Map<number, number>();
    let running = true;
    const count = () => seen.get(200) ?? 0;
    const load = Array.from({ length: 4 }, async () => {
      while (running) {
        const status = await statusOf(plane);
        seen.set(status, (seen.get(status) ?? 0) + 1);
      }
    });
    const more = async () => {
      const before = count();
      await waitFor("more requests", () => count() > before + 200);
    };
    await more();
    const taken = service.output().split("TLS files changed").length;
    authority.issue("server");
    authority.issue("edge-1");
    // The primary and the worker: control and Envoy listener.
    await waitFor("the service to use it", () => service.output().split("TLS files changed").length >= taken + 2);
    if (kind === "nginx") await plane.reload();
    await more();
    running = false;
    await Promise.all(load);
    expect([...seen.keys()]).toEqual([200]);
  });
}

describe("nginx", () => suite("nginx"));

describeEnvoy("Envoy", () => {
  suite("Envoy");

  it("asks the rate limit service with its certificate, and denies requests without one", async () => {
    const plane = await start("Envoy", good(), { mode: "rls" });
    await waitFor("the service to answer", async () => (await statusOf(plane)) === 200);
    const stranger = await start("Envoy", { ...good(), client: undefined }, { node: "unlisted", mode: "rls" });
    expect([await statusOf(stranger), await statusOf(stranger)]).toEqual([503, 503]);
  });

  it("does not show the token in its admin interface, which only its user can reach", async () => {
    const plane = (await start("Envoy", good(), { node: "unlisted" })) as EnvoyProcess;
    const dump = await plane.admin("/config_dump?include_eds");
    expect(dump).toContain("secret-token.yaml");
    expect(dump).not.toContain(PLANE_TOKEN);
    expect(dump).not.toContain(Buffer.from(`Bearer ${PLANE_TOKEN}`).toString("base64"));
    expect(statSync(join(plane.dir, "admin.sock")).mode & 0o777).toBe(0o600);
  });
});
