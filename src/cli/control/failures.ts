/** What can go wrong between a command and the control listener, each as one sentence that says what, where and what to do. */
import { describeProblem } from "../../config/problem.js";
import { UNKNOWN_APP } from "../../core/codes.js";
import { problemReply } from "../../service/operations/contract/contract.js";
import { Failure, NOT_ALLOWED, REFUSED, UNREACHABLE } from "../exit-codes.js";
import { span } from "../numbers.js";
import { escaped } from "../printing.js";

export interface Called {
  /** host:port, as the operator knows it. */
  place: string;
  path: string;
  /** It asked for a change, so that it matters whether it arrived. */
  isOrder: boolean;
  hasToken: boolean;
  timeoutMs: number;
}

/** No answer came. */
export function unreachable(error: unknown, called: Called): Failure {
  const { place, isOrder, timeoutMs } = called;
  const unsure = isOrder ? "; whether the order was carried out is not known" : "";
  const code = codeOf(error);
  const failure = (sentence: string) => new Failure(sentence, UNREACHABLE);
  if (code === "ECONNREFUSED") {
    return failure(`nothing listens on ${place}; is tollgate serve running, or is --url wrong?`);
  }
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") {
    return failure(`the name in ${place} is not known; is --url wrong?`);
  }
  if (code === "EHOSTUNREACH" || code === "ENETUNREACH") {
    return failure(`there is no way to ${place}; is --url wrong, or the network down?`);
  }
  if (isTimeout(error, code)) {
    return failure(`${place} did not answer within ${shown(timeoutMs)}; --timeout waits longer${unsure}`);
  }
  if (error instanceof Error && error.name === "HTTPParserError") {
    return failure(`what listens on ${place} does not speak HTTP; is --url wrong?`);
  }
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER") return failure(`${place} does not speak TLS; is it http:// in --url?`);
  if (code === "UND_ERR_SOCKET" || code === "ECONNRESET" || code === "EPIPE") {
    return failure(`${place} closed the connection without an answer; is --url http:// or https://?${unsure}`);
  }
  const message = error instanceof Error ? error.message : String(error);
  return failure(`${place} cannot be called: ${escaped(message)}${code === "" ? "" : ` (${code})`}${unsure}`);
}

function codeOf(error: unknown): string {
  for (let at = error; at instanceof Error; at = at.cause) {
    if ("code" in at && typeof at.code === "string") return at.code;
  }
  return "";
}

function isTimeout(error: unknown, code: string): boolean {
  const name = error instanceof Error ? error.name : "";
  return name === "TimeoutError" || code === "ETIMEDOUT" || /^UND_ERR_.*TIMEOUT$/.test(code);
}

const shown = (ms: number) => (ms < 1000 || ms % 1000 !== 0 ? `${ms}ms` : span(ms / 1000));

/** An answer came, and it is not what the control listener of a tollgate says. */
export function notTollgate({ place, path }: Called, status: number, what: string): Failure {
  const sentence = `${place} answers ${path} with ${status} and ${what}; is --url the control listener of a tollgate?`;
  return new Failure(sentence, UNREACHABLE);
}

/** The listener said no, and why. */
export function refused(status: number, body: unknown, called: Called): Failure {
  const { place, path } = called;
  const parsed = problemReply.loose().safeParse(body);
  if (!parsed.success) return notTollgate(called, status, "no reason that could be read");
  const { error, reason, field, detail, problems = [] } = parsed.data;
  const says = escaped([reason, detail].filter((part) => part !== undefined && part !== "").join("; "));
  const failure = (sentence: string, exitCode: number) => new Failure(sentence, exitCode, body);

  if (status === 401) return failure(`${place} ${tokenAdvice(called)} (${says})`, NOT_ALLOWED);
  if (status === 403) return failure(`${place} does not allow this: ${says}`, NOT_ALLOWED);
  if (status === 429) return failure(`${place} does not answer just now: ${says}; try again later`, NOT_ALLOWED);
  if (status === 404 && reason === "no_such_endpoint") {
    return failure(`${place} has no ${path}; is it another version of tollgate, or the wrong --url?`, REFUSED);
  }
  if (status === 404 && error === UNKNOWN_APP) {
    return failure(`${says} (${place}; tollgate apps lists them)`, REFUSED);
  }
  if (problems.length > 0) {
    const lines = problems.map((each) => `  ${escaped(describeProblem(each))}`);
    const what = escaped(detail ?? reason);
    return failure(`${place} refused the configuration: ${what}\n${lines.join("\n")}`, REFUSED);
  }
  if (status === 503) return failure(`${place} could not do it: ${escaped(error)}, ${says}; try again`, REFUSED);
  const where = field === undefined ? "" : `, in ${escaped(field)}`;
  return failure(`${place} refused it with ${status} ${escaped(error)}: ${says}${where}`, REFUSED);
}

function tokenAdvice({ hasToken }: Called): string {
  return hasToken
    ? "does not take this token; it must be control.admin_token of its configuration"
    : "wants the admin token; set TOLLGATE_ADMIN_TOKEN, or use --token-file or --config";
}
