/** Backends get the resolved identity, and nothing that a client says about itself: on the Node gateway, nginx and Envoy. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describeEnvoy } from "../../support/envoy-binary.js";
import { envoyPlane, startEnvoy } from "../../support/envoy-process.js";
import { type GatewayProcess, startGateway } from "../../support/gateway-process.js";
import { type Backend, startBackend } from "../../support/http-backend.js";
import { fetchReply } from "../../support/http-client.js";
import { nginxPlane, startNginx } from "../../support/nginx-process.js";
import { freePort } from "../../support/ports.js";
import { waitFor } from "../../support/wait-for.js";

const KEY = "the-key-of-the-video-app";
/** Two addresses of this machine: only the second is trusted. */
const STRANGER = "127.0.0.1";
const TRUSTED = "127.0.0.2";
/** Every spelling that a CGI or WSGI server reads as one of the identity headers. */
const CLAIMS = {
  "X-App-Id": "admin",
  "x-app_id": "admin",
  x_app_id: "admin",
  "X_App-Id": "admin",
  "X-User-Id": "root",
  x_user_id: "root",
  X_API_Key: KEY,
  Forwarded: "for=10.1.1.1",
};

const endings: (() => unknown)[] = [];
let backend: Backend;
let service: GatewayProcess;
/** The headers of the last request that reached the backend. */
let received: string[] = [];
let envoyListen: string;
const ports: Record<string, number> = {};

const yaml = (identity: string) => `
apps: { default: { guaranteed: 100000, burst: 100000 }, video: { guaranteed: 100000, burst: 100000 } }
identity: { trusted_hops: [${TRUSTED}/32], api_keys: { video: [${KEY}] }, ${identity} }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes:
  - { path: /, upstream: backend }
  - { path: /ws/, upstream: backend, connections: { max_per_pod: 1000, rate_per_second: 0 } }
`;
const NO_FORWARDING = "forward_identity: false";
const names = ["node", "nginx", "envoy", "envoy rls"] as const;
type Plane = (typeof names)[number];

async function start(plane: Plane, identity: string): Promise<number> {
  const services = [new URL(service.controlUrl).host];
  const started = await {
    node: () => startGateway(`workers: 1\n${yaml(identity)}`),
    // nginx itself drops names with underscores unless it is told otherwise.
    nginx: () => startNginx(yaml(identity), { services, http: "underscores_in_headers on;" }),
    envoy: () => startEnvoy(yaml(identity), { services }),
    "envoy rls": () => startEnvoy(yaml(identity), { envoyServices: [envoyListen], mode: "rls" }),
  }[plane]();
  endings.push(() => started.stop());
  return Number(new URL(started.url).port);
}

beforeAll(async () => {
  nginxPlane();
  envoyPlane();
  backend = await startBackend((request, response) => {
    received = request.rawHeaders;
    response.end("ok");
  });
  endings.push(() => backend.stop());
  envoyListen = `127.0.0.1:${await freePort()}`;
  service = await startGateway(`workers: 1\nenvoy: { listen: "${envoyListen}" }\n${yaml("")}`);
  endings.push(() => service.stop());
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** What the backend received, without headers that have nothing to do with identity. */
async function seen(port: number, localAddress: string, headers: Record<string, string>, path = "/") {
  const reply = await fetchReply(port, path, { localAddress, headers });
  if (reply.status !== 200) return { status: reply.status };
  const found: [string, string][] = [];
  for (let i = 0; i < received.length; i += 2) {
    const name = received[i]!.toLowerCase();
    if (/app|user|key|^forwarded|x-forwarded-(for|host)/.test(name)) found.push([name, received[i + 1]!]);
  }
  return found.sort();
}

const forwarded = (address: string): [string, string][] => [
  ["x-forwarded-for", address],
  ["x-forwarded-host", "shop.example"],
];

function suite(plane: Plane): void {
  const host = { Host: "shop.example" };

  describe("with forward_identity", () => {
    beforeAll(async () => {
      ports[plane] = await start(plane, "");
      await waitFor("the plane", async () => Array.isArray(await seen(ports[plane]!, STRANGER, host)));
    });

    it("what an untrusted client claims is replaced by the identity that was resolved", async () => {
      const app: [string, string] = ["x-app-id", "default"];
      expect(await seen(ports[plane]!, STRANGER, host)).toEqual([app, ...forwarded(STRANGER)]);
      const all = { ...host, ...CLAIMS, "X-Forwarded-For": "9.9.9.9", "X-Forwarded-Host": "bank.example" };
      expect(await seen(ports[plane]!, STRANGER, all)).toEqual([app, ...forwarded(STRANGER)]);
      // Connection must not remove what the gateway adds.
      const removing = { ...host, Connection: "close, X-App-Id" };
      expect(await seen(ports[plane]!, STRANGER, removing)).toEqual([app, ...forwarded(STRANGER)]);
    });

    it("an API key is used and not passed on, from anybody", async () => {
      const key = { ...host, "X-API-Key": KEY };
      const payer = plane === "envoy rls" ? "default" : "video";
      expect(await seen(ports[plane]!, STRANGER, key)).toEqual([["x-app-id", payer], ...forwarded(STRANGER)]);
      expect(await seen(ports[plane]!, TRUSTED, key)).toEqual([["x-app-id", payer], ...forwarded(TRUSTED)]);
      expect(await seen(ports[plane]!, STRANGER, { ...host, "X-API-Key": "another-key-of-somebody" })).toEqual([
        ["x-app-id", "default"],
        ...forwarded(STRANGER),
      ]);
    });

    it("a trusted hop names app and user, in the configured spelling only", async () => {
      const claims = { ...host, ...CLAIMS, "X-App-Id": "video" };
      expect(await seen(ports[plane]!, TRUSTED, claims)).toEqual([
        ["forwarded", "for=10.1.1.1"],
        ["x-app-id", "video"],
        ...forwarded(TRUSTED),
        ["x-user-id", "root"],
      ]);
      expect(await seen(ports[plane]!, TRUSTED, { ...host, x_app_id: "video" })).toEqual([
        ["x-app-id", "default"],
        ...forwarded(TRUSTED),
      ]);
    });

    // The filter itself identifies nobody: it passes on what a trusted hop says.
    if (plane === "envoy rls") return;
    it("the same holds for upgrades and for apps that are not configured", async () => {
      const upgrade = { ...host, ...CLAIMS, Connection: "Upgrade", Upgrade: "websocket" };
      const found = await seen(ports[plane]!, STRANGER, upgrade, "/ws/");
      expect(found).toEqual([["x-app-id", "default"], ...forwarded(STRANGER)]);
      expect(await seen(ports[plane]!, TRUSTED, { ...host, "X-App-Id": "unknown" })).toEqual([
        ["x-app-id", "default"],
        ...forwarded(TRUSTED),
      ]);
    });
  });

  it("without forward_identity, backends get no identity at all", async () => {
    const port = await start(plane, NO_FORWARDING);
    await waitFor("the plane", async () => Array.isArray(await seen(port, STRANGER, host)));
    expect(await seen(port, STRANGER, { ...host, ...CLAIMS, "X-API-Key": KEY })).toEqual(forwarded(STRANGER));
    const { Forwarded: _, ...claims } = CLAIMS;
    expect(await seen(port, TRUSTED, { ...host, ...claims, "X-App-Id": "video" })).toEqual(forwarded(TRUSTED));
  });
}

describe("the Node gateway", () => suite("node"));
describe("nginx", () => suite("nginx"));
describeEnvoy("Envoy", () => suite("envoy"));
describeEnvoy("Envoy's rate limit filter", () => suite("envoy rls"));
