/** An Express server with 100 tokens per second for the team "red", in bursts of at most 200. Teams have API keys. */
import express, { type Request } from "express";
import { limit } from "tollgate";
import { limiter, teamOf } from "./teams.js";

const app = express();
app.use((request, response, next) => {
  response.locals.team = teamOf(request.headers["x-api-key"]);
  if (response.locals.team === undefined) response.status(401).json({ error: "unknown API key" });
  else next();
});
app.use(limit({ limiter, app: (request: Request) => request.res?.locals.team }));
app.get("/hello", (_request, response) => void response.json({ hello: "world" }));

export const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => console.log("listening"));
export const stop = async () => {
  server.close();
  await limiter.close();
};
