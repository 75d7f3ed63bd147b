/** The same with Hono. */
import { serve } from "@hono/node-server";
import { limit } from "@tollgate/limiter/hono";
import { Hono } from "hono";
import { limiter, teamOf } from "./teams.js";

interface AppEnv {
  Variables: { team: string };
}

const app = new Hono<AppEnv>();
app.use(async (context, next) => {
  const team = teamOf(context.req.header("x-api-key"));
  if (team === undefined) return context.json({ error: "unknown API key" }, 401);
  context.set("team", team);
  return next();
});
app.use(limit<AppEnv>({ limiter, app: (context) => context.get("team") }));
app.get("/hello", (context) => context.json({ hello: "world" }));

export const server = serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000), hostname: "127.0.0.1" }, () =>
  console.log("listening"),
);
export const stop = async () => {
  server.close();
  await limiter.close();
};
