/** The middleware of every framework: headers, refusals, what extractors see, and what is charged at the end. */
import { createServer } from "node:http";
import type { AddressInfo, Server } from "node:net";
import { serve } from "@hono/node-server";
import express from "express";
import Fastify from "fastify";
import { Hono } from "hono";
import Koa from "koa";
import { afterEach, describe, expect, it } from "vitest";
import { createLimiter, type Decision, type LibraryLimiter, limit, limitPlugin } from "../../../src/index.js";
import { limit as expressLimit } from "../../../src/limiter/library/middleware/express.js";
import { limitPlugin as fastifyLimit } from "../../../src/limiter/library/middleware/fastify.js";
import { limit as honoLimit } from "../../../src/limiter/library/middleware/hono.js";
import { limit as koaLimit } from "../../../src/limiter/library/middleware/koa.js";
import { waitFor } from "../../support/wait-for.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** 160 KiB: two units of bandwidth more than estimated. */
const BODY = "x".repeat(160 * 1024);

/** Each starts a server that responds with BODY, and takes app and user from headers. */
const frameworks: Record<
  string,
  (limiter: LibraryLimiter, sees: (ip: string | undefined) => undefined) => Promise<Server>
> = {
  "node:http": async (limiter, sees) => {
    const check = limit({
      limiter,
      app: ({ headers }) => value(headers["x-app"]),
      user: ({ headers }) => value(headers["x-user"]),
      ip: ({ socket }) => sees(socket.remoteAddress),
    });
    return createServer((request, response) => check(request, response, () => response.end(BODY))).listen(
      0,
      "127.0.0.1",
    );
  },
  Express: async (limiter, sees) => {
    const app = express();
    app.use(
      expressLimit({
        limiter,
        app: (request) => request.get("x-app"),
        user: (request) => request.get("x-user"),
        ip: (request) => sees(request.ip),
      }),
    );
    app.use((_request, response) => void response.send(BODY));
    return app.listen(0, "127.0.0.1");
  },
  Fastify: async (limiter, sees) => {
    const app = Fastify();
    await app.register(fastifyLimit, {
      limiter,
      app: (request) => value(request.headers["x-app"]),
      user: (request) => value(request.headers["x-user"]),
      ip: (request) => sees(request.ip),
    });
    app.get("/*", () => BODY);
    await app.listen({ port: 0, host: "127.0.0.1" });
    return app.server;
  },
  Hono: async (limiter, sees) => {
    const app = new Hono();
    app.use(
      honoLimit({
        limiter,
        app: (context) => context.req.header("x-app"),
        user: (context) => context.req.header("x-user"),
      }),
    );
    app.get("/*", (context) => context.text(BODY));
    sees("127.0.0.1");
    const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
    return server as Server;
  },
  Koa: async (limiter, sees) => {
    const app = new Koa();
    app.use(
      koaLimit({
        limiter,
        app: (context) => context.get("x-app"),
        user: (context) => context.get("x-user"),
        ip: (context) => sees(context.ip),
      }),
    );
    app.use((context) => {
      context.body = BODY;
    });
    return app.listen(0, "127.0.0.1");
  },
};

const value = (header: string | string[] | undefined) => (typeof header === "string" ? header : undefined);

describe.each(Object.keys(frameworks))("the middleware of %s", (name) => {
  async function start(options: Parameters<typeof createLimiter>[0]) {
    const deviated: [Decision, number][] = [];
    const seen: (string | undefined)[] = [];
    const limiter = await createLimiter({
      ...options,
      observer: { deviated: (decision, cost) => void deviated.push([decision, cost]) },
    });
    endings.push(() => limiter.close());
    const server = await frameworks[name]!(limiter, (ip) => {
      seen.push(ip);
      return undefined;
    });
    endings.push(() => new Promise((resolve) => server.close(resolve)));
    if (!server.listening) await new Promise((resolve) => server.once("listening", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const get = async (path: string, headers: Record<string, string>) => {
      const response = await fetch(url + path, { headers: { ...headers, connection: "close" } });
      return { status: response.status, headers: response.headers, text: await response.text() };
    };
    return { get, deviated, seen };
  }

  it("lets requests pass with headers, and refuses with status, body and Retry-After", async () => {
    const { get, seen } = await start({
      apps: { red: { guaranteed: 1000 } },
      limits: [{ name: "per-user", key: ["user", "ip"], rate: "1/min" }],
    });
    const headers = { "x-app": "red", "x-user": "anna" };
    const allowed = await get("/a", headers);
    expect(allowed).toMatchObject({ status: 200, text: BODY });
    expect(allowed.headers.get("ratelimit-policy")).toContain('"per-user";q=1;w=60');
    const refused = await get("/a", headers);
    expect(refused.status).toBe(429);
    expect(refused.headers.get("content-type")).toMatch(/^application\/json/);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(50);
    expect(JSON.parse(refused.text)).toMatchObject({
      reason: "quota_exhausted",
      app_id: "red",
      limit_name: "per-user",
    });
    expect((await get("/a", { ...headers, "x-user": "ben" })).status).toBe(200);
    expect((await get("/a", { "x-user": "ben" })).status).toBe(403);
    expect(seen).toContain("127.0.0.1");
  });

  it("charges the body of the response at the end", async () => {
    const { get, deviated } = await start({ apps: { red: { guaranteed: 1000 } } });
    expect((await get("/a", { "x-app": "red" })).headers.get("x-ratelimit-cost")).toBe("1");
    await waitFor("the settled cost", () => deviated.length > 0);
    expect(deviated[0]).toMatchObject([{ app: "red", cost: 1 }, 4]);
  });

  it("needs no app for limits, and compares the path", async () => {
    const { get } = await start({
      limits: [{ name: "admin", key: ["method"], deny: ["GET"], rate: "1/s", match: { path: ["/admin/"] } }],
    });
    expect((await get("/admin/x?y", {})).status).toBe(403);
    expect((await get("/a", {})).status).toBe(200);
    expect((await get("/%zz", {})).status).toBe(400);
  });
});

/** Counts what is settled of one request with `respond` as its handler. */
async function settledWithHono(
  respond: () => Response,
  use: (request: (method: string) => Promise<Response>) => Promise<unknown>,
): Promise<number> {
  let settled = 0;
  const observer = { settled: () => void settled++ };
  const limiter = await createLimiter({ apps: { red: { guaranteed: 1000 } }, observer });
  endings.push(() => limiter.close());
  const app = new Hono();
  app.use(honoLimit({ limiter, app: () => "red" }));
  app.get("/", respond);
  await use(async (method) => app.request("/", { method }));
  return settled;
}

describe("Hono settles exactly once", () => {
  const chunk = new TextEncoder().encode("x");

  it("a request of method HEAD, whose body is dropped", async () => {
    expect(
      await settledWithHono(
        () => new Response("x"),
        (request) => request("HEAD"),
      ),
    ).toBe(1);
  });

  it("a response whose body fails", async () => {
    const failing = new ReadableStream({ pull: () => Promise.reject(new Error("broken")) });
    const read = async (request: (method: string) => Promise<Response>) =>
      expect((await request("GET")).text()).rejects.toThrow("broken");
    expect(await settledWithHono(() => new Response(failing), read)).toBe(1);
  });

  it("a response that the client leaves while it waits for the body", async () => {
    const stalled = new ReadableStream({ start: (controller) => controller.enqueue(chunk) });
    const leave = async (request: (method: string) => Promise<Response>) => {
      const reader = (await request("GET")).body!.getReader();
      await reader.read();
      const waiting = reader.read();
      await reader.cancel();
      await waiting;
    };
    expect(await settledWithHono(() => new Response(stalled), leave)).toBe(1);
  });
});

it("former options get an error that says what to write", async () => {
  const limiter = await createLimiter({ apps: { red: { guaranteed: 1 } } });
  endings.push(() => limiter.close());
  const former = { limiter, attributes: () => ({ user: "a" }) };
  expect(() => limit(former)).toThrow("attributes is now user, ip, host and path: instead of attributes: (request) =>");
  const misspelled = { limiter, ips: () => "" };
  expect(() => limit(misspelled)).toThrow(
    "ips is not an option; there are limiter, app, user, ip, host, path, headers",
  );
  expect(() => limitPlugin()).toThrow('limitPlugin is in "@tollgate/limiter/fastify"');
});
