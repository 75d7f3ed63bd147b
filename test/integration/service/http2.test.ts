/** HTTP/2 clients of a real service process: identity, limits per app and client, exact costs, and overload. */
import { type ClientHttp2Session, connect } from "node:http2";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { fileURLToPath } from "node:url";
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createTestAuthority, type TestAuthority } from "../../support/certificates.js";
import { ADMIN_TOKEN, type GatewayProcess, startGateway, workersOf } from "../../support/gateway-process.js";
import { type Backend, startBackend } from "../../support/http-backend.js";
import { http2 as request2 } from "../../support/http2-proxy.js";
import { waitFor } from "../../support/wait-for.js";

const preload = fileURLToPath(new URL("../../support/load-process.mjs", import.meta.url));
const KEY = "the-key-of-the-video-app";
const TRUSTED = "127.0.0.2";
const QUANTUM = 65_536;

const endings: (() => unknown)[] = [];
let authority: TestAuthority;
let backend: Backend;
let gateway: GatewayProcess;
/** Headers of the last request, and responses that wait. */
let received: string[] = [];
const waiting: (() => void)[] = [];

beforeAll(async () => {
  authority = createTestAuthority();
  endings.push(authority.remove);
  const { cert, key } = authority.issue("server");
  backend = await startBackend((incoming, response) => {
    received = incoming.rawHeaders;
    const respond = () => response.end(Buffer.alloc(Number(incoming.url?.split("?bytes=")[1] ?? 2), "x"));
    if (incoming.url?.startsWith("/wait")) waiting.push(respond);
    else incoming.on("end", respond).resume();
  });
  endings.push(() => backend.stop());
  gateway = await startGateway(
    `
workers: 1
tls: { cert: ${cert}, key: ${key} }
overload: { loop_lag_ms: 200 }
lease: { report_interval_ms: 500 }
request_limits: { requests_per_app: 3, requests_per_client: 5 }
apps:
  default: { guaranteed: 100000, burst: 100000 }
  video: { guaranteed: 100000, burst: 100000 }
  counted: { guaranteed: 0.001, burst: 1000 }
identity: { trusted_hops: [${TRUSTED}/32], api_keys: { video: [${KEY}] } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`,
    { ca: authority.pem, env: { NODE_OPTIONS: `--import ${preload}` } },
  );
  endings.push(() => gateway.stop());
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** A connection from one of the addresses of this machine. */
function open(localAddress = "127.0.0.1"): ClientHttp2Session {
  const port = Number(new URL(gateway.url).port);
  const options: ConnectionOptions & { localAddress: string } = {
    ...{ host: "127.0.0.1", port, localAddress },
    ...{ ca: authority.pem, servername: "localhost", ALPNProtocols: ["h2"] },
  };
  const session = connect("https://shop.example", { createConnection: () => connectTls(options) });
  session.on("error", () => {});
  endings.push(() => session.destroy());
  return session;
}

const http2: typeof request2 = (session, headers, body) =>
  request2(session, { ":authority": "shop.example", ...headers }, body);

/** What the backend has received about the identity of the client. */
function identity(): [string, string][] {
  const pairs = received.flatMap((name, at): [string, string][] =>
    at % 2 === 0 ? [[name.toLowerCase(), received[at + 1]!]] : [],
  );
  return pairs.filter(([name]) => /app|user|key|^forwarded|x-forwarded-(for|host)/.test(name)).sort();
}

async function spentOf(app: string): Promise<number> {
  const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` };
  const { body } = await request(`${gateway.controlUrl}/admin/ratelimit/apps/${app}`, { headers });
  return ((await body.json()) as { layers: { l2: { spent: number } } }).layers.l2.spent;
}

it("backends get the identity that was resolved, and nothing that an untrusted client claims", async () => {
  const claims = {
    "x-app-id": "admin",
    x_app_id: "admin",
    "x-user-id": "root",
    forwarded: "for=10.1.1.1",
    "x-forwarded-for": "9.9.9.9",
    "x-forwarded-host": "bank.example",
  };
  const forwarded = (address: string) => [
    ["x-forwarded-for", address],
    ["x-forwarded-host", "shop.example"],
  ];
  const session = open();
  expect(await http2(session, claims)).toMatchObject({ status: 200 });
  expect(identity()).toEqual([["x-app-id", "default"], ...forwarded("127.0.0.1")]);
  expect(await http2(session, { "x-api-key": KEY })).toMatchObject({ status: 200 });
  expect(identity()).toEqual([["x-app-id", "video"], ...forwarded("127.0.0.1")]);
  expect(await http2(open(TRUSTED), { "x-app-id": "video", "x-user-id": "anna" })).toMatchObject({ status: 200 });
  expect(identity()).toEqual([["x-app-id", "video"], ...forwarded(TRUSTED), ["x-user-id", "anna"]]);
});

it("costs are settled exactly: method, request body and response body", async () => {
  const session = open(TRUSTED);
  const app = { "x-app-id": "counted" };
  await http2(session, { ...app, ":path": `/?bytes=${9 * QUANTUM + 1}` });
  await http2(session, { ...app, ":method": "PUT", ":path": "/?bytes=0" }, Buffer.alloc(4 * QUANTUM));
  await http2(session, { ...app, ":method": "DELETE", ":path": "/?bytes=0" });
  await waitFor("the report", async () => (await spentOf("counted")) === 1 + 10 + (5 + 4) + 2);
});

it("running requests of an app and of a client address are limited, over all connections", async () => {
  const [first, second] = [open(), open()];
  const running = [first, second, first].map((session) => http2(session, { ":path": "/wait" }));
  await waitFor("three requests", () => waiting.length === 3);
  const refused = await http2(second, {});
  expect([refused.status, JSON.parse(refused.body).reason]).toEqual([429, "app_concurrency"]);
  const others = [first, second].map((session) => http2(session, { ":path": "/wait", "x-api-key": KEY }));
  await waitFor("five requests", () => waiting.length === 5);
  const sixth = await http2(second, { "x-api-key": KEY });
  expect([sixth.status, JSON.parse(sixth.body).reason]).toEqual([429, "client_concurrency"]);
  // Another address is not affected.
  expect(await http2(open(TRUSTED), { "x-app-id": "video" })).toMatchObject({ status: 200 });
  for (const respond of waiting.splice(0)) respond();
  for (const { status } of await Promise.all([...running, ...others])) expect(status).toBe(200);
  expect(await http2(first, {})).toMatchObject({ status: 200 });
});

it("an overloaded worker refuses new streams with 503, keeps the connection, and recovers", async () => {
  const worker = workersOf(gateway.pid)[0]!;
  const session = open();
  expect(await http2(session, {})).toMatchObject({ status: 200 });
  process.kill(worker, "SIGUSR2");
  await waitFor("a refusal", async () => {
    const { status, body, headers } = await http2(session, {});
    return status === 503 && body.includes('"reason":"overloaded"') && headers["retry-after"] === "1";
  });
  process.kill(worker, "SIGUSR2");
  await waitFor("the end of the overload", async () => (await http2(session, {})).status === 200);
  expect(session.destroyed).toBe(false);
  expect(workersOf(gateway.pid)).toEqual([worker]);
});
