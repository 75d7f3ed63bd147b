/** Which app pays for a request: by a token, an API key, the host or the path. What is refused is charged to nobody. */
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from "jose";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { sendRaw } from "../../../support/http-client.js";
import { waitFor } from "../../../support/wait-for.js";

const KEY = "a-key-of-the-blog";
const FLAT = "profile: { bandwidth: 0, base: { GET: 1 } }";
const app = (id: string) => `${id}: { guaranteed: 0.001, burst: 10000, ${FLAT} }`;

let backend: Server;
let seen: IncomingHttpHeaders = {};
let keys: { server: Server; status: number };
let privateKey: Awaited<ReturnType<typeof generateKeyPair>>["privateKey"];
let gateway: GatewayProcess;

const portOf = (server: Server) => (server.address() as AddressInfo).port;

async function listening(server: Server): Promise<Server> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

beforeAll(async () => {
  const pair = await generateKeyPair("ES256");
  privateKey = pair.privateKey;
  const jwks = JSON.stringify({ keys: [{ ...(await exportJWK(pair.publicKey)), kid: "one" }] });
  backend = await listening(
    createServer((incoming, response) => {
      seen = incoming.headers;
      response.end("ok");
    }),
  );
  const server = await listening(createServer((_incoming, response) => response.writeHead(keys.status).end(jwks)));
  keys = { server, status: 503 };
  gateway = await startGateway(`
workers: 1
unknown_apps: default
apps: { ${["default", "shop", "blog", "wiki", "docs"].map(app).join(", ")} }
limits: [{ name: per-user, key: [user], rate: 2/h, match: { path: [/limited] } }]
identity:
  trusted_hops: [198.51.100.0/24]
  api_keys: { blog: [${KEY}] }
  hosts: { Wiki.example.com: wiki }
  path_segment: 2
  jwt: { jwks_url: "http://127.0.0.1:${portOf(server)}/", audience: [gateway], app_claim: app }
upstreams: { backend: { targets: ["127.0.0.1:${portOf(backend)}"] } }
routes: [{ path: /, upstream: backend }]
`);
});
afterAll(async () => {
  await gateway?.stop();
  backend?.close();
  keys?.server.close();
});

function token(own: JWTPayload = {}): Promise<string> {
  const exp = Math.floor(Date.now() / 1000) + 600;
  return new SignJWT({ aud: "gateway", exp, app: "shop", sub: "ann", ...own })
    .setProtectedHeader({ alg: "ES256", kid: "one" })
    .sign(privateKey);
}

interface Reply {
  status: number;
  /** That paid. */
  app: string;
  remaining: number;
  reason: string;
  challenge: string;
}

async function get(path: string, headers: Record<string, string | string[]> = {}): Promise<Reply> {
  const { statusCode, headers: got, body } = await request(`${gateway.url}${path}`, { headers });
  const text = await body.text();
  return {
    status: statusCode,
    app: /^"([^"]*)"/.exec(String(got["ratelimit-policy"] ?? ""))?.[1] ?? "",
    remaining: Number(got["x-ratelimit-remaining"]),
    reason: statusCode === 200 ? "" : (JSON.parse(text) as { reason: string }).reason,
    challenge: String(got["www-authenticate"] ?? ""),
  };
}

const bearer = (value: string) => ({ authorization: `Bearer ${value}` });

/** The tokens left for all apps. */
async function balances(): Promise<number[]> {
  const places = [{}, { "x-api-key": KEY }, { host: "wiki.example.com" }, bearer(await token())];
  const replies = await Promise.all(places.map((headers) => get("/", headers)));
  return replies.map(({ remaining }) => remaining);
}

describe("the app of a request", () => {
  it("gets 503 while the keys of tokens have not been read; other requests pass", async () => {
    expect(await get("/", bearer(await token()))).toMatchObject({ status: 503, reason: "token_keys_unavailable" });
    expect(await get("/", { "x-api-key": KEY })).toMatchObject({ status: 200, app: "blog" });
    await waitFor("a log line", () =>
      gateway.output().includes("cannot read the keys of tokens: requests with a token"),
    );
    keys.status = 200;
    await waitFor("the keys to be read", async () => (await get("/", bearer(await token()))).status === 200);
  });

  it.each<[string, string, () => Promise<Record<string, string>> | Record<string, string>, string]>([
    ["the claim of a token", "/", async () => bearer(await token()), "shop"],
    [
      "a token before an API key, host and path",
      "/v1/docs",
      async () => ({ ...bearer(await token()), "x-api-key": KEY }),
      "shop",
    ],
    ["an API key before the host", "/", () => ({ "x-api-key": KEY, host: "wiki.example.com" }), "blog"],
    ["the host, in any case and with a port", "/", () => ({ host: "WIKI.example.com:8080" }), "wiki"],
    ["the host before the path", "/v1/docs", () => ({ host: "wiki.example.com" }), "wiki"],
    ["a segment of the path", "/v1/docs/page?x=1", () => ({}), "docs"],
    ["a segment of the path in another spelling", "/v1//x/../%64ocs/page", () => ({}), "docs"],
    ["the default, without any of them", "/v1", () => ({}), "default"],
    ["the default, for an unknown segment", "/v1/nobody", () => ({}), "default"],
    ["the default, for a hostile segment", "/v1/%7B%7D", () => ({}), "default"],
    ["the default, for an unknown app in a token", "/", async () => bearer(await token({ app: "nobody" })), "default"],
    ["what follows, for another scheme", "/v1/docs", () => ({ authorization: "Basic YTpi" }), "docs"],
  ])("is found by %s", async (_by, path, headers, found) => {
    expect(await get(path, await headers())).toMatchObject({ status: 200, app: found });
  });

  it("and the user of a token are forwarded, and its user has the limits of a user", async () => {
    const ann = bearer(await token({ sub: "auth0|ann" }));
    expect((await get("/limited", ann)).status).toBe(200);
    expect(seen).toMatchObject({ "x-app-id": "shop", "x-user-id": "auth0|ann", ...ann });
    expect((await get("/limited", bearer(await token({ sub: "auth0|ann", jti: "2" })))).status).toBe(200);
    expect((await get("/limited", ann)).status).toBe(429);
    expect((await get("/limited", bearer(await token({ sub: "auth0|bob" })))).status).toBe(200);
  });
});

describe("a refused token", () => {
  it("gets 401 with the reason, and nobody is charged", async () => {
    const before = await balances();
    const past = Math.floor(Date.now() / 1000) - 3_600;
    const good = await token();
    const refused: [Record<string, string | string[]>, string][] = [
      [bearer(await token({ exp: past })), "the token has expired"],
      [bearer(await token({ aud: "other" })), "the claim aud is not accepted"],
      [
        bearer(new UnsecuredJWT({ aud: "gateway", exp: past + 9_999, app: "shop" }).encode()),
        "the algorithm is not accepted",
      ],
      [bearer(`${good.slice(0, -8)}AAAAAAAA`), "the signature is wrong"],
      [bearer("x".repeat(4_000)), "the token is malformed"],
      [{ authorization: "Bearer" }, "the token is malformed"],
      [{ authorization: "Bearer a b" }, "the token is malformed"],
      [{ authorization: [`Bearer ${good}`, `Bearer ${good}`] }, "Authorization was sent twice"],
      [bearer(await token({ app: "a{b}" })), "the claim with the app is missing or invalid"],
    ];
    for (const [headers, problem] of refused) {
      expect(await get("/v1/docs", { ...headers, "x-api-key": KEY })).toMatchObject({
        ...{ status: 401, reason: "invalid_token" },
        challenge: `Bearer error="invalid_token", error_description="${problem}"`,
      });
    }
    // The balances themselves cost one token each.
    expect(await balances()).toEqual(before.map((tokens) => tokens - 1));
  });

  it("with control characters gets 400, and one of a megabyte 431", async () => {
    const raw = (value: string) =>
      sendRaw(Number(new URL(gateway.url).port), `GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${value}\r\n\r\n`);
    expect(await raw("a\0b")).toMatch(/^HTTP\/1\.1 400 /);
    expect(await raw("a".repeat(1_048_576))).toMatch(/^HTTP\/1\.1 431 /);
  });
});
