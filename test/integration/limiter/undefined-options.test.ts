/** Options, and what the extractors of the middleware return: undefined stands for the default. */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import { createLimiter, type LibraryLimiter, limit, type MiddlewareOptions } from "../../../src/index.js";

type Extractors = Omit<MiddlewareOptions<IncomingMessage>, "limiter">;

let limiter: LibraryLimiter | undefined;
let server: Server | undefined;
afterEach(async () => {
  await new Promise((resolve) => (server === undefined ? resolve(0) : server.close(resolve)));
  await limiter?.close();
});

async function statuses(extractors: Extractors): Promise<number[]> {
  limiter = await createLimiter({
    apps: { default: { guaranteed: 1000, burst: 2000 } },
    limits: [
      { name: "per-user", key: ["user"], rate: "2/min" },
      { name: "per-address", key: ["ip"], rate: "100/min" },
    ],
  });
  return statusesOf(limit({ limiter, app: () => "default", ...extractors, headers: undefined }));
}

/** Of three requests. */
async function statusesOf(middleware: ReturnType<typeof limit<IncomingMessage>>): Promise<number[]> {
  server = createServer((request, response) => {
    middleware(request, response, (error) => {
      response.statusCode = error === undefined ? 200 : 500;
      response.end();
    });
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const seen = [];
  for (let i = 0; i < 3; i++) seen.push((await fetch(`http://127.0.0.1:${port}/`)).status);
  return seen;
}

const nothing = () => undefined;
// JavaScript has no compiler that rejects null.
const none = (() => null) as unknown as () => undefined;

it.each<[string, Extractors]>([
  ["return undefined", { user: nothing, ip: nothing, host: nothing, path: nothing }],
  ["return null", { user: none, ip: none, host: none, path: none }],
  ["are undefined", { user: undefined, ip: undefined, host: undefined, path: undefined }],
  ["are missing", {}],
])("extractors that %s have their defaults: anonymous users share a limit", async (_, extractors) => {
  expect(await statuses(extractors)).toEqual([200, 200, 429]);
});

it.each<[string, string, number[]]>([
  ["is paid by the app default", "default", [200, 200, 429]],
  ["is refused without one", "other", [403, 403, 403]],
])("a request without an app %s", async (_, listed, expected) => {
  limiter = await createLimiter({
    apps: { [listed]: { guaranteed: 1000 } },
    limits: [{ name: "per-app", key: ["app"], rate: "2/min" }],
  });
  expect(await statusesOf(limit<IncomingMessage>({ limiter, app: () => undefined }))).toEqual(expected);
});

it("options that are undefined have their defaults", async () => {
  limiter = await createLimiter({
    apps: { app: { guaranteed: 5, burst: undefined, priority: undefined, profile: undefined, dryRun: undefined } },
    lease: { reserve: undefined, syncIntervalMs: undefined, idleMs: undefined },
    cluster: { id: undefined, capacity: undefined, rate: undefined, shards: undefined },
    limits: [
      { name: "all", rate: "100/s", key: undefined, burst: undefined, match: { path: undefined, app: undefined } },
    ],
    timeoutMs: undefined,
    maxValues: undefined,
    failOpenTokens: undefined,
    store: undefined,
    node: undefined,
    observer: undefined,
  });
  expect(await limiter.take("app", 1)).toMatchObject({ allowed: true, limit: 10, remaining: 9 });
  limiter.reconfigure({ apps: { app: { guaranteed: 10 } }, lease: undefined, cluster: { rate: undefined } });
  expect(await limiter.take("app", 1)).toMatchObject({ allowed: true, limit: 20 });
});
