/** Environment variables in the configuration: ${NAME} in the file, and variables that override single options. */
import { parseRedisUrl, type RedisAddress } from "../store/redis/redis-url.js";
import { namedAt, type Path, type PlacedProblem, type Problem, problemAt } from "./problem.js";

export type Environment = Record<string, string | undefined>;

/** Parts of the option `store`. */
export const storeVariables = ["REDIS_HOST", "REDIS_PORT", "REDIS_PASSWORD"];

/** Variable → option. */
export const overrides: Readonly<Record<string, [string, string] | [string]>> = {
  REDIS_TIMEOUT: ["lease", "timeout_ms"],
  REDIS_POOL_SIZE: ["store_pool_size"],
  RATELIMIT_L3_RESERVE: ["lease", "reserve"],
  RATELIMIT_REFILL_THRESHOLD: ["lease", "refill_threshold"],
  RATELIMIT_SYNC_INTERVAL: ["lease", "sync_interval_ms"],
  RATELIMIT_BATCH_THRESHOLD: ["lease", "batch_threshold"],
  RATELIMIT_FAIL_OPEN_TOKENS: ["fail_open_tokens"],
  METRICS_ENABLED: ["metrics", "enabled"],
  LOG_LEVEL: ["log", "level"],
};

const VARIABLE = /\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?/g;

export type Section = Record<string, unknown>;

export function isSection(value: unknown): value is Section {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * A copy with every ${NAME} and ${NAME:-default} in strings replaced; $${ is a literal ${. The file is parsed before, so a
 * value cannot add options. If a variable is missing, the value is missing in the copy.
 */
export function expand(raw: unknown, environment: Environment): { value: unknown; problems: PlacedProblem[] } {
  const problems: PlacedProblem[] = [];

  function text(written: string, path: Path): string | undefined {
    let missing = false;
    const complain = (reason: string) => {
      missing = true;
      problems.push(problemAt(path, raw, reason));
      return "";
    };
    const expanded = written.replace(VARIABLE, (match, name?: string, otherwise?: string) => {
      if (match === "$${") return "${";
      if (name === undefined)
        return complain(`contains a \${ that does not begin \${NAME}; write $\${ for a literal \${`);
      const value = environment[name];
      if (value !== undefined && value !== "") return value;
      return otherwise ?? complain(`the environment variable ${name} is not set; \${${name}:-} makes it optional`);
    });
    return missing ? undefined : expanded;
  }

  function copy(value: unknown, path: Path): unknown {
    if (typeof value === "string") return text(value, path);
    if (Array.isArray(value)) return value.map((item, i) => copy(item, [...path, i]));
    if (!isSection(value)) return value;
    const section: Section = {};
    for (const [name, item] of Object.entries(value)) {
      if (name === "__proto__") {
        problems.push(namedAt([...path, name], raw, "is not an allowed name"));
        continue;
      }
      const copied = copy(item, [...path, name]);
      if (copied !== undefined) section[name] = copied;
    }
    return section;
  }

  return { value: copy(raw, []), problems };
}

/** Applies the variables and returns which option was set by which. Empty variables are ignored. */
export function override(
  config: Section,
  environment: Environment,
): { origin: Map<string, string>; problems: Problem[] } {
  const origin = new Map<string, string>();
  for (const [variable, [name, option]] of Object.entries(overrides)) {
    const value = environment[variable];
    if (value === undefined || value === "") continue;
    if (option === undefined) config[name] = value;
    else {
      config[name] ??= {};
      const section = config[name];
      if (!isSection(section)) continue;
      section[option] = value;
    }
    origin.set(option === undefined ? name : `${name}.${option}`, variable);
  }
  return { origin, problems: overrideStore(config, environment) };
}

function overrideStore(config: Section, environment: Environment): Problem[] {
  const { REDIS_HOST: host = "", REDIS_PORT: port = "", REDIS_PASSWORD: password = "" } = environment;
  if (host === "" && port === "" && password === "") return [];
  const store = config.store ?? "embedded";
  let address: RedisAddress;
  if (store === "embedded") {
    // A password alone does not select Redis.
    if (host === "" && port === "") return [];
    address = { kind: "redis", tls: false, hosts: [{ host: "127.0.0.1", port: 6379 }], db: 0 };
  } else {
    try {
      address = parseRedisUrl(String(store), password === "" ? undefined : password);
    } catch {
      // The schema reports the problem.
      return [];
    }
  }
  const problems: Problem[] = [];
  const [first, ...others] = address.hosts;
  if ((host !== "" || port !== "") && (others.length > 0 || address.kind !== "redis")) {
    const reason = `cannot replace one of several servers: store is a ${address.kind}:// URL`;
    problems.push({ path: host !== "" ? "REDIS_HOST" : "REDIS_PORT", value: "", reason });
  }
  if (host !== "" && !/^([A-Za-z0-9._-]+|[0-9A-Fa-f:.]+)$/.test(host)) {
    problems.push({ path: "REDIS_HOST", value: "", reason: "must be a host name or an address, without a port" });
  }
  if (port !== "" && !(/^[0-9]{1,5}$/.test(port) && Number(port) >= 1 && Number(port) <= 65535)) {
    const hint = port.startsWith("tcp://") ? "; Kubernetes sets this for a service called redis" : "";
    problems.push({ path: "REDIS_PORT", value: "", reason: `must be a whole number from 1 to 65535${hint}` });
  }
  if (problems.length > 0) return problems;
  if (host !== "") first.host = host;
  if (port !== "") first.port = Number(port);
  if (password !== "") address.password = password;
  config.store = urlOf(address);
  return [];
}

function urlOf({ kind, tls, hosts, username = "", password, db, sentinelName }: RedisAddress): string {
  const scheme = tls ? kind.replace("redis", "rediss") : kind;
  const user = password === undefined ? "" : `${encodeURIComponent(username)}:${encodeURIComponent(password)}@`;
  const servers = hosts.map(({ host, port }) => `${host.includes(":") ? `[${host}]` : host}:${port}`).join(",");
  const name = sentinelName === undefined ? "" : `/${encodeURIComponent(sentinelName)}`;
  return `${scheme}://${user}${servers}${name}${db === 0 ? "" : `/${db}`}`;
}
