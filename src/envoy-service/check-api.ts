/**
 * `POST /v1/check`: decisions for data planes whose lease is empty, as plain text. The body has a line `app cost` per request,
 * the reply a line `allowed code remaining limit retry_after_ms` per request, in the same order. A request with limits has
 * `app cost` or `limit:NAME:VALUES cost` for each of its accounts in one line: tokens are taken of all or of none, and the
 * line of the reply has these five words for each. If a line is invalid, the body is rejected and nothing is taken.
 */
import { OK, UNKNOWN_APP } from "../core/codes.js";
import { isIdentifier } from "../core/platform.js";
import { BUCKET_PREFIX } from "../descriptors/limit-rules.js";
import type { Limiter } from "../limiter/limiter.js";
import type { AccountDecision } from "../limiter/limits/limit-checks.js";
import { type HttpRoute, problem } from "./http-routes.js";
import type { PaidForPlanes } from "./paid-for-planes.js";

const MAX_REQUESTS = 1_000;
/** An app and all limits of a configuration. */
const MAX_ACCOUNTS = 1_001;
const COST = /^[0-9]{1,10}$/;

interface Asked {
  id: string;
  cost: number;
}

export function createCheckApi(
  limiter: Pick<Limiter, "takeForPlane" | "takeTogetherForPlane">,
  paid: Pick<PaidForPlanes, "add">,
): HttpRoute {
  async function decide(request: Asked[]): Promise<AccountDecision[]> {
    const [{ id, cost }] = request as [Asked];
    if (request.length === 1 && !id.startsWith(BUCKET_PREFIX)) return [await limiter.takeForPlane(id, cost)];
    return (await limiter.takeTogetherForPlane(request)) ?? request.map(() => UNKNOWN);
  }

  /** Only what an app paid: limits are not settled from access logs. */
  function notePaid(plane: string, request: Asked[], decisions: AccountDecision[]): void {
    const [{ id, cost }] = request as [Asked];
    const [{ app, code }] = decisions as [AccountDecision];
    const isPaid = code === OK && decisions.every(({ allowed }) => allowed);
    if (isPaid && !id.startsWith(BUCKET_PREFIX)) paid.add(plane, app, cost);
  }

  return {
    method: "POST",
    path: "/v1/check",
    async handle(body, { plane }) {
      const requests = requestsOf(body.toString("latin1"));
      if (typeof requests === "string") return problem(400, "bad_request", "invalid_argument", requests);
      const decisions = await Promise.all(requests.map(decide));
      for (const [i, request] of requests.entries()) notePaid(plane, request, decisions[i]!);
      return { status: 200, headers: { "content-type": "text/plain" }, body: decisions.map(lineOf).join("") };
    },
  };
}

/** The configuration of the data plane has a limit that this service does not have. */
const UNKNOWN: AccountDecision = {
  app: "",
  allowed: false,
  code: UNKNOWN_APP,
  remaining: 0,
  limit: 0,
  retryAfterMs: 0,
};

/** Returns a text if the body is invalid. */
function requestsOf(text: string): Asked[][] | string {
  const lines = (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
  if (lines.length > MAX_REQUESTS) return `must have at most ${MAX_REQUESTS} lines`;
  const requests: Asked[][] = [];
  for (const [i, line] of lines.entries()) {
    const words = line.split(" ");
    if (words.length > 2 * MAX_ACCOUNTS) return `line ${i + 1} must have at most ${MAX_ACCOUNTS} accounts`;
    const request: Asked[] = [];
    for (let at = 0; at < words.length; at += 2) {
      const [id = "", cost = ""] = words.slice(at, at + 2);
      if (id === "" || !COST.test(cost)) return `line ${i + 1} must be an app and a cost`;
      if (!isIdentifier(id)) return `line ${i + 1}: app must be 1 to 128 of A-Z a-z 0-9 . _ : -`;
      request.push({ id, cost: Number(cost) });
    }
    requests.push(request);
  }
  return requests;
}

function lineOf(decisions: AccountDecision[]): string {
  return `${decisions.map(wordsOf).join(" ")}\n`;
}

function wordsOf({ allowed, code, remaining, limit, retryAfterMs }: AccountDecision): string {
  return `${allowed ? 1 : 0} ${code} ${Math.floor(remaining)} ${limit} ${Math.ceil(retryAfterMs)}`;
}
