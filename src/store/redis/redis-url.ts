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

const SCHEME = /^(rediss?)(-cluster|-sentinel)?:\/\//i;
const SCHEMES = "redis://, rediss://, redis-cluster://, rediss-cluster://, redis-sentinel://, rediss-sentinel://";

export function isRedisUrl(url: string): boolean {
  return SCHEME.test(url);
}

/** @param password for a URL with a user name but no password */
export function parseRedisUrl(url: string, password?: string): RedisAddress {
  const [scheme, protocol = "", suffix = ""] = SCHEME.exec(url) ?? fail(`the scheme must be one of ${SCHEMES}`);
  const kind = `redis${suffix.toLowerCase()}` as RedisAddress["kind"];
  const rest = url.slice(scheme.length);
  if (/[?#]/.test(rest)) {
    fail("it has a part after ? or #; further settings are options, and in a password these are %3F and %23");
  }
  const [authority = "", ...path] = rest.split("/");
  if (path.some((part) => part.includes("@"))) {
    fail("there is an @ after the first /; in a user name or password / is %2F and @ is %40");
  }
  const at = authority.lastIndexOf("@");
  const sentinelName = kind === "redis-sentinel" ? parsePrimaryName(path.shift()) : undefined;
  return {
    kind,
    tls: protocol.toLowerCase() === "rediss",
    ...(at > 0 ? parseUser(authority.slice(0, at), password) : {}),
    hosts: parseHosts(kind, authority.slice(at + 1)),
    ...(sentinelName === undefined ? {} : { sentinelName }),
    db: parseDb(kind, path),
  };
}

function parseUser(text: string, defaultPassword?: string): Pick<RedisAddress, "username" | "password"> {
  const colon = text.indexOf(":");
  if (colon === -1 && defaultPassword !== undefined) {
    return { username: decode("user name", text), password: defaultPassword };
  }
  // Without a password the connection would silently use another user.
  if (colon === -1 || colon === text.length - 1) fail("there is a user name but no password");
  const username = decode("user name", text.slice(0, colon));
  const password = decode("password", text.slice(colon + 1));
  return username === "" ? { password } : { username, password };
}

function parseHosts(kind: RedisAddress["kind"], text: string): RedisAddress["hosts"] {
  const texts = text.split(",");
  if (kind === "redis" && texts.length > 1) fail("it has several hosts; that is for -cluster:// and -sentinel://");
  const defaultPort = kind === "redis-sentinel" ? 26379 : 6379;
  return texts.map((host, index) =>
    parseHost(host, texts.length === 1 ? "the host" : `host ${index + 1}`, defaultPort),
  ) as RedisAddress["hosts"];
}

function parseHost(text: string, which: string, defaultPort: number): HostAndPort {
  const match = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]+))?$/.exec(text);
  if (match?.[1] === undefined) {
    if (text === "" || text.startsWith(":")) fail(`${which} is missing`);
    if (/:[^:\]]*$/.test(text) && !/:[0-9]+$/.test(text)) fail(`the port of ${which} is not a number`);
    fail(`${which} is not a host name, an IPv4 address or an IPv6 address in [ ]`);
  }
  const port = match[2] === undefined ? defaultPort : Number(match[2]);
  if (port < 1 || port > 65535) fail(`the port of ${which} is not between 1 and 65535`);
  return { host: match[1].replace(/^\[|\]$/g, ""), port };
}

function parsePrimaryName(text = ""): string {
  return (
    decode("name of the primary", text) || fail("the name of the primary is missing: redis-sentinel://host:port/name")
  );
}

function parseDb(kind: RedisAddress["kind"], [text = "", ...more]: string[]): number {
  if (more.length > 0) fail("there is more than one / after the hosts");
  if (!/^[0-9]{0,6}$/.test(text)) fail("the database is not a whole number");
  const db = Number(text);
  if (kind === "redis-cluster" && db !== 0) fail("Redis Cluster only has database 0");
  return db;
}

function decode(part: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return fail(`the ${part} has a % that is not followed by two hexadecimal digits; a % itself is %25`);
  }
}

function fail(reason: string): never {
  throw new Error(`invalid store url: ${reason}`);
}
