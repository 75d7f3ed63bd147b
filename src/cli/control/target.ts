/** Determines URL, token and operator of a call from options, a configuration file and the environment. */
import { readFileSync } from "node:fs";
import { userInfo } from "node:os";
import { loadConfig } from "../../config/load.js";
import { describeProblem, quoted } from "../../config/problem.js";
import { parseAddress } from "../../config/values.js";
import type { Environment } from "../../config/variables.js";
import { hostAndPort } from "../../render/common.js";
import { flagOption, type OptionValues, textOption, UsageError } from "../command.js";
import { readDuration } from "../numbers.js";
import { escaped } from "../printing.js";

const DEFAULT_URL = "http://127.0.0.1:9145";

const targetOptions = {
  url: textOption,
  config: textOption,
  "token-file": textOption,
  timeout: textOption,
  json: flagOption,
} as const;

/** For commands that change something; both are written to the audit log. */
const orderOptions = { operator: textOption, reason: textOption } as const;

const targetHelp = `Common options:
  --url URL          the control listener; or TOLLGATE_URL (default: ${DEFAULT_URL})
  --config FILE      take address and admin token from this configuration file
  --token-file FILE  a file with the admin token; or TOLLGATE_ADMIN_TOKEN. There is no option for the token itself, because
                     all users of a machine can see the options of a process
  --timeout TIME     maximum time to wait for the reply (default: 10s)
  --json             machine-readable
`;

const orderHelp = `  --operator NAME    your name for the audit log (default: your user name)
  --reason TEXT      the reason, for the audit log
`;

/** `isMutating`: for a command that changes something. */
export const commonOptions = (isMutating: boolean) =>
  isMutating ? { ...targetOptions, ...orderOptions } : targetOptions;
export const commonHelp = (isMutating: boolean) => (isMutating ? targetHelp + orderHelp : targetHelp);

export type TargetValues = OptionValues<typeof targetOptions & typeof orderOptions>;

export type Target = ReturnType<typeof readTarget>;

/** Precedence: options, then the file given by --config, then the environment. */
export function readTarget(values: Partial<TargetValues>, env: Environment) {
  const timeoutMs = readDuration("--timeout", values.timeout ?? "10s", { leastMs: 10, mostMs: 3_600_000 });
  const config = values.config === undefined ? undefined : controlOf(values.config, env);
  const file = values["token-file"];
  return {
    /** Without a trailing slash. */
    url:
      (values.url === undefined ? config?.url : checkedUrl("--url", values.url)) ??
      checkedUrl("TOLLGATE_URL", env.TOLLGATE_URL || DEFAULT_URL),
    /** Empty if unknown. */
    token:
      (file === undefined ? config?.token : tokenIn(file)) ||
      checkedToken("TOLLGATE_ADMIN_TOKEN", env.TOLLGATE_ADMIN_TOKEN ?? ""),
    timeoutMs,
  };
}

export interface Signature {
  operator?: string | undefined;
  reason?: string | undefined;
}

export function readSignature({ operator = userName(), reason }: Signature): Signature {
  if (operator.length > 128) throw new UsageError("--operator: more than 128 characters");
  if (reason !== undefined && reason.length > 512) throw new UsageError("--reason: more than 512 characters");
  return { operator: operator || undefined, reason };
}

function userName(): string {
  const named = process.env.USER ?? process.env.LOGNAME ?? "";
  if (named !== "") return named.slice(0, 128);
  try {
    return userInfo().username.slice(0, 128);
  } catch {
    // In containers, user ids often have no name.
    return "";
  }
}

function checkedUrl(name: string, text: string): string {
  const wrong = (reason: string) => new UsageError(`${name}: ${reason}; for example ${DEFAULT_URL}`);
  if (!URL.canParse(text)) throw wrong(`${quoted(text)} is not a URL`);
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw wrong(`${quoted(text)} is not an HTTP URL`);
  if (url.username !== "" || url.password !== "") throw wrong("a URL with a user or password is not allowed");
  if (url.search !== "" || url.hash !== "") throw wrong("only scheme, host, port and path are allowed");
  return `${url.origin}${url.pathname}`.replace(/\/+$/, "");
}

/** A listener on all addresses is called on the loopback address. */
function controlOf(file: string, env: Environment): { url: string; token: string } {
  const { config, problems } = loadConfig({ file, env });
  if (config === undefined) {
    const more = problems.length > 1 ? `, and ${problems.length - 1} more` : "";
    const what = describeProblem(problems[0]!);
    throw new UsageError(`--config: ${escaped(what)}${more}; see tollgate check-config, or use --url`);
  }
  const { listen, admin_token: token } = config.control;
  const { host, port } = parseAddress(listen) ?? { host: "", port: 0 };
  if (port === 0) throw new UsageError(`--config: control.listen ${listen} has no port; use --url`);
  const reachable = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return { url: checkedUrl("--config", `http://${hostAndPort({ host: reachable, port })}`), token };
}

function tokenIn(file: string): string {
  let token: string;
  try {
    token = readFileSync(file, "utf8").trim();
  } catch (error) {
    throw new UsageError(`--token-file: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (token === "") throw new UsageError(`--token-file: ${file} is empty`);
  return checkedToken("--token-file", token);
}

/** The token becomes a header. The error message must not contain it. */
function checkedToken(name: string, token: string): string {
  if (/^[!-~]*$/.test(token)) return token;
  throw new UsageError(`${name}: a token must be one line of printable ASCII characters without spaces`);
}
