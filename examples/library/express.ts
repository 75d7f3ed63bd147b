/** An Express server that lets each team spend 100 tokens per second, with bursts of 200. */
import type { IncomingMessage } from "node:http";
import express from "express";
import { createLimiter, limit } from "tollgate";

const limiter = await createLimiter({
  store: process.env.TOLLGATE_STORE ?? "embedded",
  apps: {
    default: { guaranteed: 100, burst: 200 },
    tiny: { guaranteed: 1, burst: 2 },
    // Tries a limit out: decides and says so in X-RateLimit-Dry-Run, but refuses nothing.
    trial: { guaranteed: 1, burst: 2, dryRun: true },
  },
});

const app = express();
app.use(limit({ limiter, app: (request: IncomingMessage) => String(request.headers["x-team"] ?? "default") }));
app.get("/hello", (_request: unknown, response: { json(body: unknown): void }) => response.json({ hello: "world" }));

export const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1");
export const stop = async () => {
  server.close();
  await limiter.close();
};
