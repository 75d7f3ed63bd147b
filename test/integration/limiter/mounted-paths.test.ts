/** Limits of the library see the whole path of a request, wherever the middleware is mounted. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import fastify from "fastify";
import Koa from "koa";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createLimiter, type LibraryLimiter, limit } from "../../../src/index.js";
import { limitPlugin } from "../../../src/limiter/library/middleware/fastify.js";
import { limit as koaLimit } from "../../../src/limiter/library/middleware/koa.js";
import { sendRaw } from "../../support/raw-requests.js";

let limiter: LibraryLimiter;
const closing: (() => Promise<unknown>)[] = [];
const app = () => "default";

beforeAll(async () => {
  limiter = await createLimiter({
    apps: { default: { guaranteed: 1_000_000 } },
    limits: [
      { name: "login", key: ["method"], deny: ["GET"], rate: "1/s", match: { path: ["/api/login"] } },
      { name: "internal", key: ["method"], deny: ["GET"], rate: "1/s", match: { path: ["/internal/"] } },
    ],
  });
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
afterAll(() => limiter?.close());

async function listen(handler: RequestListener): Promise<number> {
  const server = createServer(handler);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

async function statuses(port: number, targets: string[]): Promise<number[]> {
  const replies = await sendRaw(
    port,
    targets.map((target) => `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`),
  );
  return replies.map(({ status }) => status);
}

const TARGETS = [
  "/api/login",
  "/api/login?x",
  "/api//login",
  "/api/login/",
  "http://a/api/login",
  "/api/other",
  "/login",
];
const EXPECTED = [403, 403, 403, 403, 403, 200, 200];

describe("a limit with match.path: /api/login applies", () => {
  it("in a Router of Express that is mounted at /api", async () => {
    const server = express();
    const router = express.Router();
    router.use(limit({ limiter, app }));
    server.use("/api", router);
    server.use((_request, response) => void response.send("ok"));
    expect(await statuses(await listen(server), TARGETS)).toEqual(EXPECTED);
  });

  it("in Routers inside of Routers, and for a single route", async () => {
    const server = express();
    const [outer, inner] = [express.Router(), express.Router()];
    inner.get("/login", limit({ limiter, app }), (_request, response) => void response.send("ok"));
    outer.use("/", inner);
    server.use("/api", outer);
    server.use("/API", outer);
    expect(await statuses(await listen(server), ["/api/login", "/api/login/"])).toEqual([403, 403]);
  });

  it("in an app that is mounted in another app", async () => {
    const [server, inner] = [express(), express()];
    inner.use(limit({ limiter, app }));
    inner.use((_request, response) => void response.send("ok"));
    server.use("/api", inner);
    expect(await statuses(await listen(server), ["/api/login", "/api/other"])).toEqual([403, 200]);
  });

  it("in a plain server", async () => {
    const check = limit({ limiter, app });
    const port = await listen((request, response) => check(request, response, () => void response.end("ok")));
    expect(await statuses(port, TARGETS)).toEqual(EXPECTED);
  });

  it("in Fastify with a prefix", async () => {
    const server = fastify();
    await server.register(
      async (scope) => {
        await scope.register(limitPlugin, { limiter, app });
        scope.get("/*", async () => "ok");
      },
      { prefix: "/api" },
    );
    await server.listen({ port: 0, host: "127.0.0.1" });
    closing.push(() => server.close());
    const { port } = server.server.address() as AddressInfo;
    expect(await statuses(port, ["/api/login", "/api/login?x", "/api/%6cogin", "/api/other"])).toEqual([
      403, 403, 403, 200,
    ]);
  });
});

it("a limit with match.path: /api/login applies in Koa below a mount, and to a path that Fastify rewrites", async () => {
  const koa = new Koa();
  koa.use((context, next) => {
    context.url = context.url.replace(/^\/api(?=\/)/, "");
    return next();
  });
  koa.use(koaLimit({ limiter, app }));
  koa.use((context) => {
    context.body = "ok";
  });
  expect(await statuses(await listen(koa.callback()), ["/api/login", "/api/other", "/internal/x"])).toEqual([
    403, 200, 403,
  ]);

  const server = fastify({
    rewriteUrl: ({ url = "/" }) => url.replace("/v1/", "/internal/").replace("/api/login", "/sign-in"),
  });
  await server.register(limitPlugin, { limiter, app });
  server.get("/*", async () => "ok");
  await server.listen({ port: 0, host: "127.0.0.1" });
  closing.push(() => server.close());
  const { port } = server.server.address() as AddressInfo;
  expect(await statuses(port, ["/v1/x", "/api/login", "/v2/x"])).toEqual([403, 403, 200]);
});

it("a path that a middleware rewrites is limited as received and as rewritten", async () => {
  const server = express();
  server.use((request, _response, next) => {
    request.url = request.url.replace("/v1/", "/internal/").replace("/api/login", "/sign-in");
    next();
  });
  server.use(limit({ limiter, app }));
  server.use((_request, response) => void response.send("ok"));
  expect(await statuses(await listen(server), ["/v1/x", "/api/login", "/v2/x"])).toEqual([403, 403, 200]);
});

it("the middleware rejects targets that frameworks read differently", async () => {
  const server = express();
  server.use(limit({ limiter, app }));
  server.use((_request, response) => void response.send("ok"));
  const invalid = [
    "/api/login#x",
    "/x?y#z",
    "//a/api/login",
    "/x/../api/login",
    "/x/%2e%2E/api/login",
    "/api\\login",
    "/%zz",
    "/%00",
  ];
  const valid = ["/", "/a%2Fb", "/a;b", "/a//b", "/.well-known/x", "http://a", "http://a/b"];
  const port = await listen(server);
  expect(await statuses(port, invalid)).toEqual(invalid.map(() => 400));
  expect(await statuses(port, valid)).toEqual(valid.map(() => 200));
});
