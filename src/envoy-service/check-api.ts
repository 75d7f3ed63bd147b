/**
 * `POST /v1/check`: decisions for data planes whose lease is empty, as plain text. The body has a line `app cost` per request,
 * the reply a line `allowed code remaining limit retry_after_ms` per request, in the same order. If a line is invalid, the
 * body is rejected and nothing is taken.
 */
import { OK } from "../core/codes.js";
import { isIdentifier } from "../core/platform.js";
import type { Decision, Limiter } from "../limiter/limiter.js";
import { type HttpRoute, problem } from "./http-routes.js";
import type { PaidForPlanes } from "./paid-for-planes.js";

const MAX_REQUESTS = 1_000;
const LINE = /^([^ ]+) ([0-9]{1,10})$/;

export function createCheckApi(
  { takeForPlane }: Pick<Limiter, "takeForPlane">,
  paid: Pick<PaidForPlanes, "add">,
): HttpRoute {
  return {
    method: "POST",
    path: "/v1/check",
    async handle(body, { plane }) {
      const requests = requestsOf(body.toString("latin1"));
      if (typeof requests === "string") return problem(400, "bad_request", "invalid_argument", requests);
      const decisions = await Promise.all(requests.map(([app, cost]) => takeForPlane(app, cost)));
      for (const { app, cost, code } of decisions) if (code === OK) paid.add(plane, app, cost);
      return { status: 200, headers: { "content-type": "text/plain" }, body: decisions.map(lineOf).join("") };
    },
  };
}

/** Returns a text if the body is invalid. */
function requestsOf(text: string): [app: string, cost: number][] | string {
  const lines = (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
  if (lines.length > MAX_REQUESTS) return `must have at most ${MAX_REQUESTS} lines`;
  const requests: [app: string, cost: number][] = [];
  for (const [i, line] of lines.entries()) {
    const match = LINE.exec(line);
    if (match === null) return `line ${i + 1} must be an app and a cost`;
    const [, app = "", cost = ""] = match;
    if (!isIdentifier(app)) return `line ${i + 1}: app must be 1 to 128 of A-Z a-z 0-9 . _ : -`;
    requests.push([app, Number(cost)]);
  }
  return requests;
}

function lineOf({ allowed, code, remaining, limit, retryAfterMs }: Decision): string {
  return `${allowed ? 1 : 0} ${code} ${Math.floor(remaining)} ${limit} ${Math.ceil(retryAfterMs)}\n`;
}
