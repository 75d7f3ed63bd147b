/** Finds the app and user of a request: by headers of a trusted hop, a token, an API key, the host or a segment of the path. */
import { createHash } from "node:crypto";
import { INVALID_TOKEN, OK } from "../../../core/codes.js";
import { hostName } from "../../../core/host.js";
import { ANONYMOUS_USER, type Identity, type IdentityRules, identify } from "../../../core/identity.js";
import { canonicalPath } from "../../../core/path.js";
import type { Arrival } from "../http/arrival.js";
import type { CheckedToken, TokenVerifier } from "./tokens.js";

export interface IdentificationOptions {
  /** Headers that name app and user; trusted hops only. */
  appHeader: string;
  userHeader: string;
  apiKeyHeader: string;
  /** Secret → app. Stored as digests, so that neither a memory dump nor the lookup time reveals a key. */
  apiKeys: Record<string, string>;
  /** Host name in lower case → app. */
  hosts?: Record<string, string>;
  /** The segment of the path that names the app, from 1 on; 0: none. */
  pathSegment?: number;
  /** Undefined: tokens are not read. */
  tokens?: TokenVerifier | undefined;
  rules: IdentityRules;
  isTrustedHop(address: string): boolean;
  isConfigured(app: string): boolean;
}

/** `problem`: why a token was refused; otherwise empty. */
export interface FoundIdentity extends Identity {
  problem?: string;
}

const digest = (key: string) => createHash("sha256").update(key).digest("base64");

export function createIdentification(options: IdentificationOptions) {
  const { rules, isTrustedHop, isConfigured, tokens, pathSegment = 0 } = options;
  const [appHeader, userHeader, keyHeader] = [options.appHeader, options.userHeader, options.apiKeyHeader].map((name) =>
    name.toLowerCase(),
  ) as [string, string, string];
  const appOfKey = new Map(Object.entries(options.apiKeys).map(([key, app]) => [digest(key), app]));
  const appOfHost = new Map(Object.entries(options.hosts ?? {}));

  function appByKey(arrival: Arrival): string {
    if (appOfKey.size === 0) return "";
    const [key, ...more] = arrival.headerValues(keyHeader);
    return key === undefined || more.length > 0 ? "" : (appOfKey.get(digest(key)) ?? "");
  }

  /** As limits read a path, so that another spelling is not another app. */
  function appByPlace({ host = "", path = "/" }: Arrival): string {
    const byHost = appOfHost.size === 0 ? undefined : appOfHost.get(hostName(host));
    if (byHost !== undefined) return byHost;
    return pathSegment === 0 ? "" : (canonicalPath(path).split("/")[pathSegment] ?? "");
  }

  function identifyAs(arrival: Arrival, token: CheckedToken | undefined): FoundIdentity {
    const apps = arrival.headerValues(appHeader);
    const users = arrival.headerValues(userHeader);
    const claims = {
      hopTrusted: isTrustedHop(arrival.remoteAddress),
      appHeader: apps[0] ?? "",
      appHeaderCount: apps.length,
      userHeader: users[0] ?? "",
      userHeaderCount: users.length,
      apiKeyApp: token?.app || appByKey(arrival) || appByPlace(arrival),
    };
    const identity = identify(claims, rules, isConfigured);
    if (token !== undefined && token.user !== "" && identity.user === ANONYMOUS_USER) identity.user = token.user;
    return identity;
  }

  function refused(code: string, problem: string): FoundIdentity {
    return { code, app: "", user: "", problem };
  }

  function identifyBy(arrival: Arrival, token: CheckedToken): FoundIdentity {
    return token.code === OK ? identifyAs(arrival, token) : refused(token.code, token.problem);
  }

  /** Most requests are identified at once. */
  return (arrival: Arrival): FoundIdentity | Promise<FoundIdentity> => {
    if (tokens === undefined) return identifyAs(arrival, undefined);
    const [value, ...more] = arrival.headerValues("authorization");
    if (more.length > 0) return refused(INVALID_TOKEN, "Authorization was sent twice");
    const token = value === undefined ? undefined : /^bearer +([!-~]+) *$/i.exec(value)?.[1];
    if (token === undefined) {
      if (value !== undefined && /^bearer\b/i.test(value)) return refused(INVALID_TOKEN, "the token is malformed");
      return tokens.required ? refused(INVALID_TOKEN, "") : identifyAs(arrival, undefined);
    }
    const checked = tokens.verify(token);
    return checked instanceof Promise
      ? checked.then((verified) => identifyBy(arrival, verified))
      : identifyBy(arrival, checked);
  };
}
