/** An Express server with 100 tokens per second for the team "red", in bursts of at most 200. Teams have API keys. */
import { limit } from "@tollgate/limiter/express";
import express from "express";
import { limiter, teamOf } from "./teams.js";

declare global {
  namespace Express {
    interface Request {
      team?: string;
    }
  }
}

const app = express();
app.use((request, response, next) => {
  const team = teamOf(request.headers["x-api-key"]);
  if (team === undefined) {
    response.status(401).json({ error: "unknown API key" });
    return;
  }
  request.team = team;
  next();
});
app.use(limit({ limiter, app: (request) => request.team }));
app.get("/hello", (_request, response) => void response.json({ hello: "world" }));

export const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => console.log("listening"));
export const stop = async () => {
  server.close();
  await limiter.close();
};
