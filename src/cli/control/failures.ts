/** Error messages of calls to the control listener: what failed, where, and what to do. */
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
  /** The call changes something, so it matters whether it was received. */
  isOrder: boolean;
  hasToken: boolean;
  timeoutMs: number;
}

/** There was no reply. */
export function unreachable(error: unknown, called: Called): Failure {
  const { place, isOrder, timeoutMs } = called;
  const unsure = isOrder ? "; the action may or may not have been performed" : "";
  const code = codeOf(error);
  const failure = (sentence: string) => new Failure(sentence, UNREACHABLE);
  if (code === "ECONNREFUSED") {
    return failure(`connection to ${place} refused; is tollgate serve running, is --url correct?`);
  }
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") {
    return failure(`unknown host in ${place}; is --url correct?`);
  }
  if (code === "EHOSTUNREACH" || code === "ENETUNREACH") {
    return failure(`${place} is unreachable; is --url correct, is the network up?`);
  }
  if (isTimeout(error, code)) {
    return failure(`no reply from ${place} within ${shown(timeoutMs)}; use --timeout to wait longer${unsure}`);
  }
  if (error instanceof Error && error.name === "HTTPParserError") {
    return failure(`${place} is not an HTTP server; is --url correct?`);
  }
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER") return failure(`${place} does not use TLS; use http:// in --url?`);
  if (code === "UND_ERR_SOCKET" || code === "ECONNRESET" || code === "EPIPE") {
    return failure(`${place} closed the connection without a reply; does --url need https://?${unsure}`);
  }
  const message = error instanceof Error ? error.message : String(error);
  return failure(`call to ${place} failed: ${escaped(message)}${code === "" ? "" : ` (${code})`}${unsure}`);
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

/** The reply is not from a control listener of tollgate. */
export function notTollgate({ place, path }: Called, status: number, what: string): Failure {
  const sentence = `${place} replied to ${path} with ${status} and ${what}; is --url a control listener of tollgate?`;
  return new Failure(sentence, UNREACHABLE);
}

/** The listener refused the call. */
export function refused(status: number, body: unknown, called: Called): Failure {
  const { place, path } = called;
  const parsed = problemReply.loose().safeParse(body);
  if (!parsed.success) return notTollgate(called, status, "an unexpected body");
  const { error, reason, field, detail, problems = [] } = parsed.data;
  const reasons = escaped([reason, detail].filter((part) => part !== undefined && part !== "").join("; "));
  const failure = (sentence: string, exitCode: number) => new Failure(sentence, exitCode, body);

  if (status === 401) return failure(`${place} ${tokenAdvice(called)} (${reasons})`, NOT_ALLOWED);
  if (status === 403) return failure(`${place} does not allow this: ${reasons}`, NOT_ALLOWED);
  if (status === 429) return failure(`${place} refuses calls for now: ${reasons}; try again later`, NOT_ALLOWED);
  if (status === 404 && reason === "no_such_endpoint") {
    return failure(`${place} has no ${path}; is it another version of tollgate, is --url correct?`, REFUSED);
  }
  if (status === 404 && error === UNKNOWN_APP) {
    return failure(`${reasons} (${place}; tollgate apps lists them)`, REFUSED);
  }
  if (problems.length > 0) {
    const lines = problems.map((each) => `  ${escaped(describeProblem(each))}`);
    const what = escaped(detail ?? reason);
    return failure(`${place} rejected the configuration: ${what}\n${lines.join("\n")}`, REFUSED);
  }
  if (status === 503) return failure(`${place} failed: ${escaped(error)}, ${reasons}; try again`, REFUSED);
  const where = field === undefined ? "" : `, in ${escaped(field)}`;
  return failure(`${place} replied with ${status} ${escaped(error)}: ${reasons}${where}`, REFUSED);
}

function tokenAdvice({ hasToken }: Called): string {
  return hasToken
    ? "rejected the token; it must be control.admin_token of its configuration"
    : "requires the admin token; set TOLLGATE_ADMIN_TOKEN, or use --token-file or --config";
}
