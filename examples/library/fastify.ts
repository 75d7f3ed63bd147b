/** The same with Fastify. */
import { limitPlugin } from "@tollgate/limiter/fastify";
import Fastify from "fastify";
import { limiter, teamOf } from "./teams.js";

declare module "fastify" {
  interface FastifyRequest {
    team: string;
  }
}

const fastify = Fastify();
fastify.decorateRequest("team", "");
fastify.addHook("onRequest", async (request, reply) => {
  const team = teamOf(request.headers["x-api-key"]);
  if (team === undefined) return reply.code(401).send({ error: "unknown API key" });
  request.team = team;
});
await fastify.register(limitPlugin, { limiter, app: (request) => request.team });
fastify.get("/hello", () => ({ hello: "world" }));
await fastify.listen({ port: Number(process.env.PORT ?? 3000), host: "127.0.0.1" });
console.log("listening");

export const server = fastify.server;
export const stop = async () => {
  await fastify.close();
  await limiter.close();
};
