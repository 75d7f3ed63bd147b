/** The same with Fastify. */
import Fastify, { type FastifyRequest } from "fastify";
import { createLimiter, limitPlugin } from "tollgate";

const limiter = await createLimiter({
  store: process.env.TOLLGATE_STORE ?? "embedded",
  apps: {
    default: { guaranteed: 100, burst: 200 },
    tiny: { guaranteed: 1, burst: 2 },
    // Tries a limit out: decides and says so in X-RateLimit-Dry-Run, but refuses nothing.
    trial: { guaranteed: 1, burst: 2, dryRun: true },
  },
});

const fastify = Fastify();
await fastify.register(limitPlugin, {
  limiter,
  app: (request: FastifyRequest) => String(request.headers["x-team"] ?? "default"),
});
fastify.get("/hello", () => ({ hello: "world" }));
await fastify.listen({ port: Number(process.env.PORT ?? 3000), host: "127.0.0.1" });

export const server = fastify.server;
export const stop = async () => {
  await fastify.close();
  await limiter.close();
};
