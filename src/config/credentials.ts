/** Validates the credentials of operators and data planes against each other and against the listeners. */
import { createAddressMatcher } from "../shared/addresses.js";
import { type Path, type Problem, problemAt } from "./problem.js";
import type { Config } from "./schema.js";
import { parseAddress } from "./values.js";

type Complain = (path: Path, reason: string) => void;

/** Tokens in the documentation and the examples: everybody knows them. A test finds those that are missing here. */
export const publishedTokens: readonly string[] = [
  "replace-this-token-of-the-planes",
  "replace-this-token-of-admins",
  "replace-this-token-of-edge-1",
  "replace-this-token-of-alice",
];

/** The node of a plane has a suffix, and nginx shortens the names of its proxies. */
const LONGEST_PLANE = 64;

interface Credential {
  path: Path;
  token: string;
  isAdmin: boolean;
}

export function checkCredentials(
  { control, envoy }: Pick<Partial<Config>, "control" | "envoy">,
  complain: Complain,
): void {
  if (control === undefined) return;
  const credentials = credentialsOf(control);
  checkDifferent(credentials, complain);
  checkOperators(control, complain);
  checkPlanes(control, envoy, complain);
  const exposed = exposedListener(control, envoy);
  for (const { path, token } of credentials) {
    if (exposed !== undefined && publishedTokens.includes(token)) {
      complain(path, `is published in the documentation, and ${exposed} is not a loopback address: choose another one`);
    }
  }
  const hasPlanes = control.plane_token !== "" || Object.keys(control.planes).length > 0;
  if (envoy?.listen !== undefined && !isLoopback(envoy.listen) && !hasPlanes) {
    complain(["envoy", "listen"], "is not a loopback address: set control.plane_token or control.planes");
  }
}

/** For a configuration whose listeners were changed by command-line options. */
export function credentialProblems(config: Config): Problem[] {
  const problems: Problem[] = [];
  checkCredentials(config, (path, reason) => problems.push(problemAt(path, config, reason)));
  return problems;
}

function credentialsOf({ admin_token, plane_token, operators, viewers, planes }: Config["control"]): Credential[] {
  const named = (section: "operators" | "viewers" | "planes", entries: Record<string, string[]>): Credential[] =>
    Object.entries(entries).flatMap(([name, tokens]) =>
      tokens.map((token) => ({ path: ["control", section, name], token, isAdmin: section !== "planes" })),
    );
  const all = [
    { path: ["control", "admin_token"], token: admin_token, isAdmin: true },
    ...named("operators", operators),
    ...named("viewers", viewers),
    { path: ["control", "plane_token"], token: plane_token, isAdmin: false },
    ...named("planes", planes),
  ];
  return all.filter(({ token }) => token !== "");
}

function checkDifferent(credentials: Credential[], complain: Complain): void {
  const seen = new Map<string, Credential>();
  for (const credential of credentials) {
    const { path, token, isAdmin } = credential;
    const before = seen.get(token);
    seen.set(token, before ?? credential);
    if (before === undefined) continue;
    // Without the name, which may be a secret in the wrong place.
    const other = String(before.path[1]);
    const of = before.path.length > 2 ? `the tokens of ${other}` : other;
    complain(
      path,
      `must differ from ${of}${before.isAdmin === isAdmin ? "" : ": data planes must not have admin access"}`,
    );
  }
}

function checkOperators({ operators, viewers }: Config["control"], complain: Complain): void {
  for (const [section, entries] of Object.entries({ operators, viewers })) {
    for (const [name, tokens] of Object.entries(entries)) {
      if (tokens.length === 0) complain(["control", section, name], "has no token");
      if (section === "viewers" && Object.hasOwn(operators, name)) {
        complain(["control", section, name], "is also the name of an operator");
      }
    }
  }
}

function checkPlanes(control: Config["control"], envoy: Config["envoy"] | undefined, complain: Complain): void {
  const listeners = { "control.tls": control.tls, ...(envoy?.listen === undefined ? {} : { "envoy.tls": envoy.tls }) };
  const silent = Object.entries(listeners).find(([, tls]) => (tls?.client_auth ?? "none") === "none");
  for (const [name, tokens] of Object.entries(control.planes)) {
    const path = ["control", "planes", name];
    if (name.length > LONGEST_PLANE) complain(path, `the name must have at most ${LONGEST_PLANE} characters`);
    if (tokens.length > 0 || silent === undefined) continue;
    complain(path, `has no token, and ${silent[0]}.client_auth does not ask for its certificate`);
  }
}

/** The option of a listener that other machines can reach, with its value. */
function exposedListener(control: Config["control"], envoy: Config["envoy"] | undefined): string | undefined {
  if (!isLoopback(control.listen)) return `control.listen ${control.listen}`;
  return envoy?.listen === undefined || isLoopback(envoy.listen) ? undefined : `envoy.listen ${envoy.listen}`;
}

const isLoopbackAddress = createAddressMatcher(["127.0.0.0/8", "::1/128"]);

function isLoopback(listen: string): boolean {
  const { host = "" } = parseAddress(listen) ?? {};
  return host.toLowerCase() === "localhost" || isLoopbackAddress(host);
}
