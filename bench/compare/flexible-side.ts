/** A Node proxy with rate-limiter-flexible: `tsx flexible-side.ts BACKEND_PORT REDIS_URL` prints its port. Without a URL it limits nothing. */
import { Agent, createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createProxyServer } from "http-proxy-3";
import { Redis } from "ioredis";
import { RateLimiterMemory, RateLimiterRedis } from "rate-limiter-flexible";
import { LIMIT, NODES, USER_RATE } from "./system.js";

const [backend = "", url = ""] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true, maxSockets: 512 });
const proxy = createProxyServer({ target: `http://127.0.0.1:${backend}`, agent });
proxy.on("error", (_error, _request, response) => {
  if ("writeHead" in response) response.writeHead(502).end();
});

function limiterOf(storeClient: Redis, keyPrefix: string, points: number) {
  return new RateLimiterRedis({
    storeClient,
    keyPrefix,
    points,
    duration: 1,
    inMemoryBlockOnConsumed: points,
    rejectIfRedisNotReady: true,
    // Without Redis, each node has its share.
    insuranceLimiter: new RateLimiterMemory({ points: Math.ceil(points / NODES), duration: 1 }),
  });
}

function limiting(): (request: IncomingMessage, response: ServerResponse) => void {
  const client = new Redis(url, { enableOfflineQueue: false });
  client.on("error", () => undefined);
  const apps = limiterOf(client, "app", LIMIT.rate);
  const users = limiterOf(client, "user", USER_RATE);
  const busy = limiterOf(client, "busy", 1_000_000_000);
  return (request, response) => {
    const isLimited = request.headers["x-app-id"] === "app";
    const user = request.headers["x-user-id"];
    const all = isLimited ? [apps.consume("app")] : [busy.consume("busy")];
    if (isLimited && typeof user === "string") all.push(users.consume(user));
    Promise.all(all).then(
      () => proxy.web(request, response),
      (refusal: unknown) => response.writeHead(refusal instanceof Error ? 503 : 429).end(),
    );
  };
}

const server = createServer(url === "" ? (request, response) => proxy.web(request, response) : limiting());
server.listen(0, "127.0.0.1", () => console.log((server.address() as AddressInfo).port));
