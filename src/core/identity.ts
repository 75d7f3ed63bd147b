/** Who is asking: which app and user a request belongs to, from what the request says and how far that is to be trusted. */
import { INVALID_IDENTITY, OK, UNKNOWN_APP } from "./codes.js";
import { isIdentifier } from "./platform.js";

/** The app that all unknown ones share, in buckets and in metric labels. */
export const DEFAULT_APP = "default";
export const ANONYMOUS_USER = "anonymous";

/** What a data plane saw of the request's identity. Counts tell "absent" (0) and "given twice" (2 or more) apart. */
export interface IdentityClaims {
  /** The hop that sent the headers may be believed. */
  hopTrusted: boolean;
  appHeader: string;
  appHeaderCount: number;
  userHeader: string;
  userHeaderCount: number;
  /** The app that the request's API key belongs to; empty without a valid key. */
  apiKeyApp: string;
}

export interface IdentityRules {
  /** Identity headers of an untrusted hop: refuse the request (true) or act as if they were not there. */
  refuseUntrustedHeaders: boolean;
  /** Apps that are not configured: refuse (true) or serve from DEFAULT_APP. */
  refuseUnknownApps: boolean;
}

export interface Identity {
  /** OK, INVALID_IDENTITY or UNKNOWN_APP. */
  code: string;
  /** The configured app that pays. Empty when refused. */
  app: string;
  user: string;
}

function refused(code: string): Identity {
  return { code, app: "", user: "" };
}

/**
 * Resolves the claims. An API key beats the header only where the hop is not trusted. A malformed or doubled header
 * is refused even when a key would do: it never becomes part of a key, a label or a log line.
 */
export function identify(
  claims: IdentityClaims,
  rules: IdentityRules,
  isConfigured: (this: void, app: string) => boolean,
): Identity {
  const named = claims.appHeaderCount > 0 || claims.userHeaderCount > 0;
  if (named && !claims.hopTrusted && rules.refuseUntrustedHeaders) return refused(INVALID_IDENTITY);
  let app = claims.apiKeyApp;
  let user = ANONYMOUS_USER;
  if (claims.hopTrusted) {
    if (claims.appHeaderCount > 1 || claims.userHeaderCount > 1) return refused(INVALID_IDENTITY);
    if (claims.appHeaderCount === 1) {
      if (!isIdentifier(claims.appHeader)) return refused(INVALID_IDENTITY);
      app = claims.appHeader;
    }
    if (claims.userHeaderCount === 1) {
      if (!isIdentifier(claims.userHeader)) return refused(INVALID_IDENTITY);
      user = claims.userHeader;
    }
  }
  if (app === "") app = DEFAULT_APP;
  if (!isConfigured(app)) {
    if (rules.refuseUnknownApps) return refused(UNKNOWN_APP);
    app = DEFAULT_APP;
  }
  return { code: OK, app, user };
}
