/**
 * `POST /v1/check`: decisions for a data plane whose own lease is empty, as plain text. A line `app cost` for each question;
 * in their order, a line `allowed code remaining limit retry_after_ms` for each answer. Nothing is taken for a body with a
 * line that cannot be read.
 */
import { isIdentifier } from "../core/portable.js";
import type { Decision } from "../limiter/decision.js";
import { type HttpReply, type HttpRoute, problem } from "./http-routes.js";

export interface CheckApiOptions {
  /** Takes so many tokens from the app's lease, as for a request of that cost. */
  take(app: string, cost: number): Decision | Promise<Decision>;
}

interface Question {
  app: string;
  cost: number;
}

const MOST_QUESTIONS = 1_000;
/** A cost of a request is at most a million; this bounds what is read, not what is allowed. */
const LINE = /^([^ ]+) ([0-9]{1,10})$/;
const TEXT_TYPE = { "content-type": "text/plain" };

export function createCheckApi({ take }: CheckApiOptions): HttpRoute {
  return {
    method: "POST",
    path: "/v1/check",
    handle(body) {
      const questions = questionsOf(body.toString("latin1"));
      if (typeof questions === "string") return problem(400, "bad_request", "invalid_argument", questions);
      const decisions = questions.map(({ app, cost }) => take(app, cost));
      return decisions.some((made) => made instanceof Promise)
        ? Promise.all(decisions).then(answerOf)
        : answerOf(decisions as Decision[]);
    },
  };
}

/** What is wrong with it, if something is. */
function questionsOf(text: string): Question[] | string {
  const lines = (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
  if (lines.length > MOST_QUESTIONS) return `must have at most ${MOST_QUESTIONS} lines`;
  const questions: Question[] = [];
  for (const [i, line] of lines.entries()) {
    const match = LINE.exec(line);
    if (match === null) return `line ${i + 1} must be an app and a cost`;
    const [, app = "", cost = ""] = match;
    if (!isIdentifier(app)) return `line ${i + 1}: app must be 1 to 128 of A-Z a-z 0-9 . _ : -`;
    questions.push({ app, cost: Number(cost) });
  }
  return questions;
}

function answerOf(decisions: readonly Decision[]): HttpReply {
  let body = "";
  for (const { allowed, code, remaining, limit, retryAfterMs } of decisions) {
    body += `${allowed ? 1 : 0} ${code} ${Math.floor(remaining)} ${limit} ${Math.ceil(retryAfterMs)}\n`;
  }
  return { status: 200, headers: TEXT_TYPE, body };
}
