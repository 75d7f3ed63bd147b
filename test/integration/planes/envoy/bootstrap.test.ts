/** The rendered Envoy configuration without the script: routes, headers, unreachable targets, size limits, and a balancer in front. */
import { once } from "node:events";
import { connect } from "node:net";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { type EnvoyProcess, startEnvoy } from "../../../support/envoy-process.js";
import { type Backend, startBackend } from "../../../support/http-backend.js";
import { freePort } from "../../../support/ports.js";

const echo = (name: string) =>
  startBackend((incoming, response) => {
    incoming.resume();
    response.setHeader("x-ratelimit-dry-run", "forged");
    response.end(JSON.stringify({ backend: name, url: incoming.url, headers: incoming.headers }));
  });

/** Admits everything. */
const EMPTY = ["main", "worker", "request", "response", "end", "tick", "wake", "replied", "retire", "leave"]
  .map((name) => `function tollgate_${name}() return 0 end\n`)
  .join("");
const withoutScript = (text: string, name: string) => (name === "tollgate.lua" ? EMPTY : text);

const ONE_ADDRESS = /^\d+\.\d+\.\d+\.\d+$/;

let backends: Backend[];
let envoy: EnvoyProcess;
let behind: EnvoyProcess;

async function start(): Promise<void> {
  backends = await Promise.all(["plain", "api", "files"].map(echo));
  const [plain, api, files] = backends.map(({ target }) => target);
  const dead = `127.0.0.1:${await freePort()}`;
  const yaml = `
upstreams:
  plain: { targets: ["${plain}"] }
  api: { targets: ["${api}"], pass_host: false }
  files: { targets: ["${files}"] }
  half: { targets: ["${dead}", "${plain}"] }
routes:
  - { path: /plain/, upstream: plain }
  - { path: /plain/deep/, upstream: files }
  - { path: /api, upstream: api }
  - { path: /half/, upstream: half }
  - { path: /plain/, host: files.example.com, upstream: files }
`;
  const common = { edit: withoutScript };
  [envoy, behind] = await Promise.all([
    startEnvoy(yaml, common),
    startEnvoy(yaml, { ...common, balancer: { hops: 1, idleMs: 60_000, healthPath: "/healthz" } }),
  ]);
}

async function get(path: string, headers: Record<string, string> = {}, from = envoy) {
  const answer = await request(`${from.url}${path}`, { headers });
  const text = await answer.body.text();
  return {
    status: answer.statusCode,
    headers: answer.headers,
    text,
    seen: text.startsWith("{") ? JSON.parse(text) : {},
  };
}

/** Sends these bytes, and returns everything received until Envoy closes the connection. */
async function raw(bytes: string): Promise<string> {
  const socket = connect(envoy.port, "127.0.0.1");
  let answer = "";
  socket.on("data", (chunk) => (answer += chunk));
  socket.write(bytes);
  await once(socket, "close");
  return answer;
}

describeEnvoy("a rendered Envoy configuration", () => {
  beforeAll(start);
  afterAll(async () => {
    await Promise.all([envoy?.stop(), behind?.stop()]);
    await Promise.all(backends.map((backend) => backend.stop()));
  });

  it.each([
    ["/plain/x", "plain.example.com", "plain"],
    ["/plain/deep/x", "a", "files"],
    ["/plain/x", "files.example.com", "files"],
    ["/plain/x", "FILES.example.com:8080", "files"],
    ["/plain/deep/x", "files.example.com", "files"],
    ["/api", "a", "api"],
    ["/api/x?q=/plain/", "a", "api"],
    ["/plain/../api/x", "a", "api"],
  ])("routes %s with host %s to %s", async (path, host, backend) => {
    const answer = await raw(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    expect(answer).toContain(`"backend":"${backend}"`);
  });

  it.each(["/", "/apis", "/plain", "/other"])("responds with 404 to %s, which has no route", async (path) => {
    const { status, headers, seen } = await get(path);
    expect([status, headers["content-type"], seen]).toEqual([
      404,
      "application/json",
      { error: "not_found", reason: "no_route" },
    ]);
  });

  it("rejects a request with two Host headers", async () => {
    const answer = await raw("GET /plain/ HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n");
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect(answer).toContain('"reason":"malformed_request"');
  });

  it("rejects a path with an escaped slash that could select another route", async () => {
    expect((await get("/plain/..%2Fapi")).status).toBe(400);
  });

  it("sends backends the client's Host or, with pass_host: false, the target as Host, and X-Forwarded headers", async () => {
    const passed = (await get("/plain/", { host: "shop.example.com" })).seen.headers;
    expect(passed).toMatchObject({ host: "shop.example.com", "x-forwarded-host": "shop.example.com" });
    // For a peer on the same machine, Envoy sends the machine's own address.
    expect(passed["x-forwarded-for"]).toMatch(ONE_ADDRESS);
    expect(passed["x-forwarded-proto"]).toBe("http");
    const own = (await get("/api", { host: "shop.example.com" })).seen.headers;
    expect(own).toMatchObject({ host: backends[1]!.target, "x-forwarded-host": "shop.example.com" });
  });

  it("replaces a client's x-request-id by a unique one", async () => {
    const ids = await Promise.all(
      [envoy, behind].map(async (from) => (await get("/plain/", { "x-request-id": "mine" }, from)).seen.headers),
    );
    expect(ids.map((headers) => headers["x-request-id"])).not.toContain("mine");
  });

  it("removes rate limit headers of backends and Envoy's internal headers from responses", async () => {
    const { headers } = await get("/plain/");
    expect(Object.keys(headers).filter((name) => /ratelimit|envoy|server/.test(name))).toEqual([]);
  });

  it("uses the other target if one is unreachable", async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => get("/half/")));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });

  it("serves HTTP/1.0, and accepts headers up to the configured number", async () => {
    expect(await raw("GET /plain/ HTTP/1.0\r\n\r\n")).toMatch(/^HTTP\/1\.[01] 200/);
    const many = (count: number) => Array.from({ length: count }, (_, i) => `X-H-${i}: v\r\n`).join("");
    const head = (count: number) => `GET /plain/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${many(count - 2)}\r\n`;
    expect(await raw(head(100))).toMatch(/^HTTP\/1.1 200/);
    expect(await raw(head(101))).toMatch(/^HTTP\/1.1 431/);
  });

  it("rejects upgrades if no route has connections", async () => {
    const head = "GET /plain/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n";
    expect(await raw(head)).toMatch(/^HTTP\/1.1 501/);
  });

  describe("behind a balancer", () => {
    it("responds to the balancer's health check itself, until the admin interface sets it to fail", async () => {
      expect((await get("/healthz", {}, behind)).status).toBe(200);
      await behind.admin("/healthcheck/fail", "POST");
      expect((await get("/healthz", {}, behind)).status).toBe(503);
      expect((await get("/plain/", {}, behind)).status).toBe(200);
      await behind.admin("/healthcheck/ok", "POST");
      expect((await get("/healthz", {}, behind)).status).toBe(200);
    });

    it("passes on the client address and scheme that the balancer reports, and appends the balancer's address", async () => {
      const { seen } = await get("/plain/", { "x-forwarded-for": "203.0.113.7", "x-forwarded-proto": "https" }, behind);
      expect(seen.headers["x-forwarded-for"]).toMatch(/^203\.0\.113\.7,[\d.]+$/);
      expect(seen.headers["x-forwarded-proto"]).toBe("https");
    });
  });
});
