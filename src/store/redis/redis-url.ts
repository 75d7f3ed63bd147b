/** Parses a store url. Errors name the invalid part and never quote the url, which may contain a password. */

export interface HostAndPort {
  host: string;
  port: number;
}

export interface RedisAddress {
  kind: "redis" | "redis-cluster" | "redis-sentinel";
  tls: boolean;
  hosts: [HostAndPort, ...HostAndPort[]];
  username?: string;
  password?: string;
  db: number;
  /** The name of the primary in the Sentinel configuration. */
  sentinelName?: string;
}

const SCHEMES: Record<string, { kind: RedisAddress["kind"]; tls: boolean }> = {
  redis: { kind: "redis", tls: false },
  rediss: { kind: "redis", tls: true },
  "redis-cluster": { kind: "redis-cluster", tls: false },
  "rediss-cluster": { kind: "redis-cluster", tls: true },
  "redis-sentinel": { kind: "redis-sentinel", tls: false },
  "rediss-sentinel": { kind: "redis-sentinel", tls: true },
};

export function isRedisUrl(url: string): boolean {
  return schemeOf(url) !== undefined;
}

export function parseRedisUrl(url: string): RedisAddress {
  const scheme = schemeOf(url);
  if (scheme === undefined) throw bad(`the scheme must be one of ${Object.keys(SCHEMES).join("://, ")}://`);
  const rest = url.slice(url.indexOf("://") + 3);
  if (/[?#]/.test(rest)) {
    throw bad("it has a part after ? or #; further settings are options, and in a password these are %3F and %23");
  }
  const slash = rest.indexOf("/");
  const authority = slash === -1 ? rest : rest.slice(0, slash);
  const path = slash === -1 ? [] : rest.slice(slash + 1).split("/");
  if (path.some((part) => part.includes("@"))) {
    throw bad("there is an @ after the first /; in a user name or password / is %2F and @ is %40");
  }
  const at = authority.lastIndexOf("@");
  return {
    ...scheme,
    ...parseUser(at === -1 ? "" : authority.slice(0, at)),
    hosts: parseHosts(scheme.kind, authority.slice(at + 1)),
    ...parsePath(scheme.kind, path),
  };
}

function schemeOf(url: string): (typeof SCHEMES)[string] | undefined {
  const end = url.indexOf("://");
  const name = url.slice(0, Math.max(0, end)).toLowerCase();
  return Object.hasOwn(SCHEMES, name) ? SCHEMES[name] : undefined;
}

function parseUser(text: string): Pick<RedisAddress, "username" | "password"> {
  if (text === "") return {};
  const colon = text.indexOf(":");
  // Without a password the connection would silently use another user.
  if (colon === -1 || colon === text.length - 1) throw bad("there is a user name but no password");
  const username = decode("user name", text.slice(0, colon));
  const password = decode("password", text.slice(colon + 1));
  return username === "" ? { password } : { username, password };
}

function parseHosts(kind: RedisAddress["kind"], text: string): [HostAndPort, ...HostAndPort[]] {
  const [first, ...others] = text.split(",").map((host, index, all) => {
    return parseHost(
      host,
      all.length === 1 ? "the host" : `host ${index + 1}`,
      kind === "redis-sentinel" ? 26379 : 6379,
    );
  });
  if (first === undefined) throw bad("the host is missing");
  if (kind === "redis" && others.length > 0)
    throw bad("it has several hosts; that is for -cluster:// and -sentinel://");
  return [first, ...others];
}

function parseHost(text: string, which: string, defaultPort: number): HostAndPort {
  const match = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]+))?$/.exec(text);
  if (match?.[1] === undefined) {
    if (text === "" || text.startsWith(":")) throw bad(`${which} is missing`);
    if (/:[^:\]]*$/.test(text) && !/:[0-9]+$/.test(text)) throw bad(`the port of ${which} is not a number`);
    throw bad(`${which} is not a host name, an IPv4 address or an IPv6 address in [ ]`);
  }
  const port = match[2] === undefined ? defaultPort : Number(match[2]);
  if (port < 1 || port > 65535) throw bad(`the port of ${which} is not between 1 and 65535`);
  return { host: match[1].replace(/^\[|\]$/g, ""), port };
}

function parsePath(kind: RedisAddress["kind"], path: string[]): Pick<RedisAddress, "db" | "sentinelName"> {
  if (kind !== "redis-sentinel") return { db: parseDb(kind, path) };
  const [name, ...rest] = path;
  if (name === undefined || name === "")
    throw bad("the name of the primary is missing: redis-sentinel://host:port/name");
  return { sentinelName: decode("name of the primary", name), db: parseDb(kind, rest) };
}

function parseDb(kind: RedisAddress["kind"], path: string[]): number {
  const text = path[0] ?? "";
  if (path.length > 1) throw bad("there is more than one / after the hosts");
  if (!/^[0-9]{0,6}$/.test(text)) throw bad("the database is not a whole number");
  const db = Number(text);
  if (kind === "redis-cluster" && db !== 0) throw bad("Redis Cluster only has database 0");
  return db;
}

function decode(part: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw bad(`the ${part} has a % that is not followed by two hexadecimal digits; a % itself is %25`);
  }
}

function bad(reason: string): Error {
  return new Error(`invalid store url: ${reason}`);
}
