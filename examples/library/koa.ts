/** The same with Koa. */
import { limit } from "@tollgate/limiter/koa";
import Koa from "koa";
import { limiter, teamOf } from "./teams.js";

const app = new Koa<{ team: string }>();
app.use(async (context, next) => {
  const team = teamOf(context.get("X-API-Key"));
  if (team === undefined) {
    context.status = 401;
    context.body = { error: "unknown API key" };
    return;
  }
  context.state.team = team;
  await next();
});
app.use(limit({ limiter, app: (context) => context.state.team }));
app.use((context) => {
  context.body = { hello: "world" };
});

export const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => console.log("listening"));
export const stop = async () => {
  server.close();
  await limiter.close();
};
