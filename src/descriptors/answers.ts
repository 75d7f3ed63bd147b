/** Takes the tokens that a request asks for: of every limit, or of none. */
import { INVALID_IDENTITY, OK, STORE_UNAVAILABLE } from "../core/codes.js";
import type { Decision } from "../limiter/decision.js";
import type { Limiter } from "../limiter/limiter.js";
import type { Clock } from "../shared/clock.js";
import { mergedMetadata } from "./metadata.js";
import type { AppQuestion, BucketQuestion, Question } from "./questions.js";
import type { DescriptorStatus, Verdict } from "./rule-book.js";

export interface AnswersOptions {
  limiter: Pick<Limiter, "take" | "giveBack" | "limits">;
  clock: Clock;
}

const NO_LIMIT = { allowed: true, code: OK, remaining: 0, resetMs: 0, retryAfterMs: 0, shadow: false };
const FREE: DescriptorStatus = { ...NO_LIMIT, unlimited: false };
const UNLIMITED: DescriptorStatus = { ...NO_LIMIT, unlimited: true };
const NOBODY: DescriptorStatus = { ...FREE, allowed: false, code: INVALID_IDENTITY };

type Limited = BucketQuestion | AppQuestion;

export function createAnswers({ limiter, clock }: AnswersOptions) {
  const { limits } = limiter;

  function take(question: Limited, hits: number): Decision | Promise<Decision> {
    return question.kind === "app" ? limiter.take(question.app, hits) : limits.take(question.bucket.lease, hits);
  }

  function giveBack(question: Limited, hits: number, app: string): void {
    if (question.kind === "app") limiter.giveBack(app, hits);
    else limits.giveBack(question.bucket.lease, hits);
  }

  /** Known before anything is taken: then others are only looked at, and nothing of them waits for the store. */
  function isSureToRefuse(question: Question): boolean {
    if (question.kind === "bad") return true;
    if (question.kind !== "bucket" || question.negative || question.limit.shadow || question.limit.quota) return false;
    return question.hits > 0 && limits.isRefused(question.bucket.lease, question.hits);
  }

  function decide(question: Question, onlyLook: boolean): Decision | Promise<Decision> | undefined {
    if (question.kind === "free" || question.kind === "bad") return undefined;
    const { negative, hits } = question;
    if (negative) giveBack(question, hits, question.kind === "app" ? question.app : "");
    return take(question, negative || (onlyLook && !isSureToRefuse(question)) ? 0 : hits);
  }

  /** Over all: one limit that is not kept is enough, except of quotas, where it takes all of them. */
  function isAllowed(questions: readonly Question[], decisions: readonly (Decision | undefined)[]): boolean {
    let quotas = 0;
    let quotasLeft = 0;
    for (let i = 0; i < questions.length; i++) {
      const question = questions[i]!;
      if (question.kind === "bad") return false;
      if (question.kind === "free" || question.negative) continue;
      const { allowed } = decisions[i]!;
      if (question.kind === "app" || !question.limit.quota) {
        if (!allowed) return false;
      } else {
        quotas++;
        if (allowed) quotasLeft++;
      }
    }
    return quotas === 0 || quotasLeft > 0;
  }

  function verdict(questions: readonly Question[], decisions: readonly (Decision | undefined)[]): Verdict {
    const allowed = isAllowed(questions, decisions);
    const statuses = questions.map((question, i) => {
      if (question.kind === "free") return question.unlimited ? UNLIMITED : FREE;
      if (question.kind === "bad") return NOBODY;
      const decision = decisions[i]!;
      const back = !allowed && decision.code === OK && !question.negative ? decision.cost : 0;
      if (back > 0) giveBack(question, back, decision.app);
      return statusOf(question, decision, back);
    });
    const metadata = allowed ? metadataOf(questions, statuses) : undefined;
    return { allowed, code: codeOf(allowed, statuses), statuses, ...(metadata === undefined ? {} : { metadata }) };
  }

  function statusOf(question: Limited, decision: Decision, back: number): DescriptorStatus {
    const { code, rate, limit: most } = decision;
    const remaining = Math.min(Math.floor(decision.remaining) + back, most);
    const isKept = decision.allowed || question.negative;
    const status: DescriptorStatus = {
      allowed: isKept,
      code: question.negative ? OK : code,
      unlimited: false,
      remaining,
      resetMs: rate > 0 ? Math.max(Math.ceil(((most - remaining) / rate) * 1000), 0) : 0,
      retryAfterMs: isKept ? 0 : retryAfterMs(question, decision),
      shadow: decision.dryRun,
    };
    if (question.kind === "bucket") status.limit = question.bucket.applied;
    // Who is not known has no limit to speak of.
    else if (decision.app !== "") status.limit = { name: decision.app, perUnit: most, unit: "second" };
    return status;
  }

  /** A refusal that is remembered knows when it is looked at anew, which may be long before tokens are there. */
  function retryAfterMs(question: Limited, { source, retryAfterMs: own }: Decision): number {
    if (question.kind === "app" || own === 0) return own;
    const { bucket } = question;
    const now = clock.now();
    if (source === "remote") bucket.retryAt = now + own;
    return source === "cached" ? Math.max(own, Math.ceil(bucket.retryAt - now)) : own;
  }

  return (questions: readonly Question[]): Verdict | Promise<Verdict> => {
    const onlyLook = questions.length > 1 && questions.some(isSureToRefuse);
    const decisions: (Decision | undefined)[] = [];
    let waiting: Promise<void>[] | undefined;
    for (let i = 0; i < questions.length; i++) {
      const made = decide(questions[i]!, onlyLook);
      if (made instanceof Promise) {
        waiting ??= [];
        waiting.push(
          made.then((decision) => {
            decisions[i] = decision;
          }),
        );
      } else {
        decisions[i] = made;
      }
    }
    if (waiting === undefined) return verdict(questions, decisions);
    return Promise.all(waiting).then(() => verdict(questions, decisions));
  };
}

/** Of the first limit that is not kept; only where there is no such, that the store does not answer. */
function codeOf(allowed: boolean, statuses: readonly DescriptorStatus[]): string {
  if (allowed) return OK;
  const refusals = statuses.filter((status) => !status.allowed);
  return (refusals.find(({ code }) => code !== STORE_UNAVAILABLE) ?? refusals[0])?.code ?? OK;
}

function metadataOf(questions: readonly Question[], statuses: readonly DescriptorStatus[]) {
  if (!questions.some((question) => question.kind === "bucket" && question.limit.metadata !== undefined)) return;
  return mergedMetadata(
    questions.map((question, i) =>
      question.kind === "bucket" && statuses[i]!.allowed ? question.limit.metadata : undefined,
    ),
  );
}
