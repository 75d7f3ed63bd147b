/** Identifies the app and user of a request from its headers or API key, if the sender is trusted. */
import { INVALID_IDENTITY, OK, UNKNOWN_APP } from "./codes.js";
import { isIdentifier } from "./platform.js";

/** All unknown apps share this app, in buckets and in metric labels. */
export const DEFAULT_APP = "default";
export const ANONYMOUS_USER = "anonymous";

/** The identity claims of a request. Counts distinguish absent headers (0) from repeated ones (2 or more). */
export interface IdentityClaims {
  /** The sender of the headers is trusted. */
  hopTrusted: boolean;
  appHeader: string;
  appHeaderCount: number;
  userHeader: string;
  userHeaderCount: number;
  /** The app that the request is identified as by other means, such as an API key; empty without any. */
  apiKeyApp: string;
}

export interface IdentityRules {
  /** Refuse a request with identity headers from an untrusted sender; otherwise ignore the headers. */
  refuseUntrustedHeaders: boolean;
  /** Refuse unknown apps; otherwise DEFAULT_APP pays. */
  refuseUnknownApps: boolean;
}

export interface Identity {
  /** OK, INVALID_IDENTITY or UNKNOWN_APP. */
  code: string;
  /** The configured app that pays; empty if refused. */
  app: string;
  user: string;
}

function refused(code: string): Identity {
  return { code, app: "", user: "" };
}

/**
 * Resolves the claims. Headers of a trusted sender take precedence over an API key. A malformed or repeated header of a
 * trusted sender is refused even with a valid key, so that it never becomes part of a key, a label or a log line.
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
