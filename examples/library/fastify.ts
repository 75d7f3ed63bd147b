/** The same with Fastify. */
import Fastify, { type FastifyRequest } from "fastify";
import { limitPlugin } from "tollgate";
import { limiter, teamOf } from "./teams.js";

const fastify = Fastify();
fastify.decorateRequest("team", "");
fastify.addHook("onRequest", async (request, reply) => {
  const team = teamOf(request.headers["x-api-key"]);
  if (team === undefined) return reply.code(401).send({ error: "unknown API key" });
  request.setDecorator("team", team);
});
await fastify.register(limitPlugin, {
  limiter,
  app: (request: FastifyRequest) => request.getDecorator<string>("team"),
});
fastify.get("/hello", () => ({ hello: "world" }));
await fastify.listen({ port: Number(process.env.PORT ?? 3000), host: "127.0.0.1" });
console.log("listening");

export const server = fastify.server;
export const stop = async () => {
  await fastify.close();
  await limiter.close();
};
