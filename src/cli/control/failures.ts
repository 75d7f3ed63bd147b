/** Error messages of calls to the control listener: what failed, where, and what to do. */
import { describeProblem } from "../../config/problem.js";
import { UNKNOWN_APP } from "../../core/codes.js";
import { problemReply } from "../../service/operations/contract/contract.js";
import { EXIT_NOT_ALLOWED, EXIT_REFUSED, EXIT_UNREACHABLE, Failure } from "../command.js";
import { span } from "../numbers.js";
import { escaped, escapedData } from "../printing.js";

export interface Called {
  /** host:port, as the operator knows it. */
  place: string;
  path: string;
  /** The call changes something, so it matters whether it was received. */
  isMutating: boolean;
  hasToken: boolean;
  timeoutMs: number;
}

/** There was no reply. */
export function unreachable(error: unknown, { place, isMutating, timeoutMs }: Called): Failure {
  const unsure = isMutating ? "; the action may or may not have been performed" : "";
  const waited = timeoutMs % 1000 === 0 ? span(timeoutMs / 1000) : `${timeoutMs}ms`;
  const code = codeOf(error);
  const [name, message] = error instanceof Error ? [error.name, error.message] : ["", String(error)];
  const known: [codeOrName: RegExp, sentence: string][] = [
    [/^ECONNREFUSED$/, `connection to ${place} refused; is tollgate serve running, is --url correct?`],
    [/^(ENOTFOUND|EAI_AGAIN)$/, `unknown host in ${place}; is --url correct?`],
    [/^E(HOST|NET)UNREACH$/, `${place} is unreachable; is --url correct, is the network up?`],
    [
      /TIMEOUT$|^ETIMEDOUT$|^TimeoutError$/,
      `no reply from ${place} within ${waited}; use --timeout to wait longer${unsure}`,
    ],
    [/^HTTPParserError$/, `${place} is not an HTTP server; is --url correct?`],
    [/^ERR_SSL_WRONG_VERSION_NUMBER$/, `${place} does not use TLS; use http:// in --url?`],
    [
      /^(UND_ERR_SOCKET|ECONNRESET|EPIPE)$/,
      `${place} closed the connection without a reply; does --url need https://?${unsure}`,
    ],
  ];
  const [, sentence] = known.find(([pattern]) => pattern.test(code) || pattern.test(name)) ?? [];
  const other = `call to ${place} failed: ${escaped(message)}${code === "" ? "" : ` (${code})`}${unsure}`;
  return new Failure(sentence ?? other, EXIT_UNREACHABLE);
}

function codeOf(error: unknown): string {
  for (let at = error; at instanceof Error; at = at.cause) {
    if ("code" in at && typeof at.code === "string") return at.code;
  }
  return "";
}

/** The reply is not from a control listener of tollgate. */
export function notTollgate({ place, path }: Called, status: number, what: string): Failure {
  const sentence = `${place} replied to ${path} with ${status} and ${what}; is --url a control listener of tollgate?`;
  return new Failure(sentence, EXIT_UNREACHABLE);
}

/** The listener refused the call. */
export function refused(status: number, body: unknown, called: Called): Failure {
  const { place, path, hasToken } = called;
  const parsed = problemReply.loose().safeParse(body);
  if (!parsed.success) return notTollgate(called, status, "an unexpected body");
  const { error, reason, field, detail, problems = [] } = escapedData(parsed.data);
  const reasons = detail === undefined || detail === "" ? reason : `${reason}; ${detail}`;
  const failure = (sentence: string, exitCode: number) => new Failure(`${place} ${sentence}`, exitCode, body);

  if (status === 401) {
    const advice = hasToken
      ? "rejected the token; it must be control.admin_token of its configuration"
      : "requires the admin token; set TOLLGATE_ADMIN_TOKEN, or use --token-file or --config";
    return failure(`${advice} (${reasons})`, EXIT_NOT_ALLOWED);
  }
  if (status === 403) return failure(`does not allow this: ${reasons}`, EXIT_NOT_ALLOWED);
  if (status === 429) return failure(`refuses calls for now: ${reasons}; try again later`, EXIT_NOT_ALLOWED);
  if (status === 404 && reason === "no_such_endpoint") {
    return failure(`has no ${path}; is it another version of tollgate, is --url correct?`, EXIT_REFUSED);
  }
  if (status === 404 && error === UNKNOWN_APP) {
    return new Failure(`${reasons} (${place}; tollgate apps lists them)`, EXIT_REFUSED, body);
  }
  if (problems.length > 0) {
    const lines = problems.map((each) => `\n  ${describeProblem(each)}`);
    return failure(`rejected the configuration: ${detail ?? reason}${lines.join("")}`, EXIT_REFUSED);
  }
  if (status === 503) return failure(`failed: ${error}, ${reasons}; try again`, EXIT_REFUSED);
  return failure(
    `replied with ${status} ${error}: ${reasons}${field === undefined ? "" : `, in ${field}`}`,
    EXIT_REFUSED,
  );
}
