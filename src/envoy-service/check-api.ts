/**
 * `POST /v1/check`: decisions for data planes whose lease is empty, as plain text. The body has a line `app cost` per request,
 * the reply a line `allowed code remaining limit retry_after_ms` per request, in the same order. A request with limits has
 * `app cost` or `limit:NAME:VALUES cost` for each of its accounts in one line: tokens are taken of all or of none, and the
 * line of the reply has these five words for each. If a line is invalid, the body is rejected and nothing is taken. If the caller
 * gives up before the reply, everything is given back: the data plane decides without it, and charges the request itself. So that
 * a caller does not give up just when the reply is sent, a decision that takes long is given up here before: 504.
 */
import { OK, UNKNOWN_APP } from "../core/codes.js";
import { VALUE_PREFIX } from "../core/keys.js";
import { isIdentifier } from "../core/platform.js";
import { limitOfBucket, overflowId } from "../descriptors/limit-rules.js";
import type { Limiter } from "../limiter/limiter.js";
import type { AccountDecision } from "../limiter/limits/limit-checks.js";
import type { PlaneValues } from "../limiter/limits/plane-values.js";
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

interface Paid {
  /** An app, or the bucket of a limit. */
  account: string;
  cost: number;
  isApp: boolean;
}

export interface CheckApiOptions {
  limiter: Pick<Limiter, "takeForPlane" | "takeTogetherForPlane" | "giveBackForPlane">;
  paid: Pick<PaidForPlanes, "add" | "takeBack">;
  values: PlaneValues;
  /** How long data planes wait for the reply. */
  timeoutMs(): number;
}

/** Of the time that a data plane waits, this part is for the decision, and the rest for the way back. */
const DECISION_PART = 0.75;

export function createCheckApi({ limiter, paid, values, timeoutMs }: CheckApiOptions): HttpRoute {
  function decide(request: Asked[]): AccountDecision[] | Promise<AccountDecision[]> {
    const [{ id, cost }] = request as [Asked];
    if (request.length > 1 || id.startsWith(VALUE_PREFIX)) {
      return limiter.takeTogetherForPlane(request) ?? request.map(() => UNKNOWN);
    }
    const decision = limiter.takeForPlane(id, cost);
    return decision instanceof Promise ? decision.then((one) => [one]) : [decision];
  }

  /** Undefined if it takes too long: what is taken later is given back. */
  async function decideInTime(requests: Asked[][]): Promise<AccountDecision[][] | undefined> {
    const deciding = requests.map(decide);
    if (!deciding.some((one) => one instanceof Promise)) return deciding as AccountDecision[][];
    let timer: NodeJS.Timeout | undefined;
    let isLate = false;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => {
        isLate = true;
        resolve(undefined);
      }, timeoutMs() * DECISION_PART);
    });
    const decided = Promise.all(deciding).then((decisions) => {
      clearTimeout(timer);
      if (isLate) giveBack(paymentsOf(requests, decisions));
      return decisions;
    });
    return Promise.race([decided, late]);
  }

  const paymentsOf = (requests: Asked[][], decisions: AccountDecision[][]) =>
    requests.flatMap((request, i) => paidOf(request, decisions[i]!));

  function giveBack(payments: Paid[]): void {
    for (const { account, cost } of payments) limiter.giveBackForPlane(account, cost);
  }

  /** What the accounts have paid. Nothing for a request that one of them refuses. */
  function paidOf(request: Asked[], decisions: AccountDecision[]): Paid[] {
    if (!decisions.every(({ allowed }) => allowed)) return [];
    return decisions.flatMap(({ app, code }, i) => {
      const { id, cost } = request[i]!;
      return code === OK && cost > 0 ? [{ account: app, cost, isApp: !id.startsWith(VALUE_PREFIX) }] : [];
    });
  }

  function undo(plane: string, payments: Paid[]): void {
    giveBack(payments);
    for (const { account, cost, isApp } of payments) if (isApp) paid.takeBack(plane, account, cost);
  }

  return {
    method: "POST",
    path: "/v1/check",
    async handle(body, { plane }) {
      const requests = requestsOf(body.toString("latin1"));
      if (typeof requests === "string") return problem(400, "bad_request", "invalid_argument", requests);
      for (const asked of requests.flat()) {
        if (!values.admits(plane, asked.id)) asked.id = overflowId(limitOfBucket(asked.id));
      }
      const decisions = await decideInTime(requests);
      if (decisions === undefined) return problem(504, "gateway_timeout", "timeout", "the store did not reply in time");
      const payments = paymentsOf(requests, decisions);
      // Only of apps: limits are not settled from access logs.
      for (const { account, cost, isApp } of payments) if (isApp) paid.add(plane, account, cost);
      return {
        status: 200,
        headers: { "content-type": "text/plain" },
        body: decisions.map(lineOf).join(""),
        undo: () => undo(plane, payments),
      };
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
