/** Decides who may call the control listener: by client address, Host header, origin and token. */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { isIP } from "node:net";
import type { AccessOptions } from "../../../config/options/service.js";
import { createAddressMatcher, plainAddress } from "../../../shared/addresses.js";
import { bearerToken, tokenCheck } from "../../../shared/bearer-token.js";
import { createFailedLogins } from "../../../shared/failed-logins.js";
import { problem, type Reply, type Role } from "../../operations/endpoint.js";

export function addressOf({ socket }: IncomingMessage): string {
  return plainAddress(socket.remoteAddress ?? "");
}

export interface GuardOptions {
  access(): AccessOptions;
  /** Milliseconds, monotonic. */
  now(): number;
  /** The token of the session that a browser's cookie names; empty if there is none. */
  sessionToken?: ((request: IncomingMessage) => string) | undefined;
  /** Callers on this machine need no token: only for the demo. */
  isOpen?: boolean | undefined;
}

export interface Admission {
  /** The error reply if the call is not allowed. */
  refusal?: Reply;
  /** The token that was accepted; empty if none is needed. */
  token: string;
}

export function createGuard({ access, now, sessionToken = () => "", isOpen = false }: GuardOptions) {
  let own = checks(access());
  const failures = { admin: createFailedLogins({ now }), plane: createFailedLogins({ now }) };

  /** Browsers send cookies by themselves, so pages of other sites must not be able to use a session. */
  function tokenWithoutHeader(request: IncomingMessage): string {
    if (isCrossSite(request.headers)) return "";
    const token = sessionToken(request);
    return token === "" && isOpen && isLoopback(addressOf(request)) ? own.access.adminToken : token;
  }

  function checkToken(request: IncomingMessage, role: "plane" | "admin"): Admission {
    const inHeader = bearerToken(request.headers.authorization);
    const token = inHeader === "" && role === "admin" ? tokenWithoutHeader(request) : inHeader;
    const refusal = tokenRefusal(request, role, token);
    return refusal === undefined ? { token } : { refusal, token: "" };
  }

  function tokenRefusal(request: IncomingMessage, role: "plane" | "admin", token: string): Reply | undefined {
    if ((role === "admin" ? own.access.adminToken : own.access.planeToken) === "") {
      const detail = `${apis[role]} is disabled: set control.${role}_token in the configuration`;
      return forbidden(`${role}_disabled`, detail);
    }
    const address = addressOf(request);
    if (token === "") return unauthorized("no_token", `the bearer token of ${holders[role]} is required`);
    const waitMs = failures[role].waitMs(address);
    if (waitMs > 0) {
      const detail = "too many wrong tokens from this address; try again later";
      const headers = { "Retry-After": String(Math.ceil(waitMs / 1000)) };
      return { ...problem(429, "too_many_requests", "failed_logins", { detail }), headers };
    }
    // Both are always compared, so that the timing reveals nothing.
    const [isAdmin, isPlane] = [own.isAdmin(token), own.isPlane(token)];
    if (role === "admin" ? isAdmin : isPlane) {
      failures[role].succeeded(address);
      return undefined;
    }
    if (isAdmin || isPlane) {
      return forbidden("wrong_role", `this is the token of ${holders[isAdmin ? "admin" : "plane"]}`);
    }
    failures[role].failed(address);
    return unauthorized("wrong_token", `this is not the bearer token of ${holders[role]}`);
  }

  /** The error reply if address, Host or origin are not allowed. */
  function peerRefusal(request: IncomingMessage, role: Role, changes: boolean): Reply | undefined {
    const current = access();
    if (own.access !== current) own = checks(current);
    if (role !== "public" && !own.isAllowed(addressOf(request))) {
      return forbidden("address_not_allowed", "control.allow does not list this address");
    }
    if (!own.isKnownHost(request.headers.host ?? "")) {
      return forbidden("unknown_host", "control.hosts does not list this Host");
    }
    if (changes && isCrossSite(request.headers)) {
      return forbidden("cross_site", "pages of other sites may not call this endpoint");
    }
    return undefined;
  }

  /** @param changes the call is not read-only */
  return (request: IncomingMessage, role: Role, changes: boolean): Admission => {
    const refusal = peerRefusal(request, role, changes);
    if (refusal !== undefined) return { refusal, token: "" };
    return role === "plane" || role === "admin" ? checkToken(request, role) : { token: "" };
  };
}

const isLoopback = createAddressMatcher(["127.0.0.0/8", "::1/128"]);

const holders = { admin: "operators (control.admin_token)", plane: "data planes (control.plane_token)" };
const apis = { admin: "the admin API", plane: "the API of data planes" };

function forbidden(reason: string, detail: string): Reply {
  return problem(403, "forbidden", reason, { detail });
}

function unauthorized(reason: string, detail: string): Reply {
  return { ...problem(401, "unauthorized", reason, { detail }), headers: { "WWW-Authenticate": "Bearer" } };
}

function checks(access: AccessOptions) {
  return {
    access,
    isAllowed: createAddressMatcher(access.allow),
    isKnownHost: hostCheck(access.hosts),
    isAdmin: tokenCheck(access.adminToken),
    isPlane: tokenCheck(access.planeToken),
  };
}

/**
 * Protects against DNS rebinding: a web page can call a host name of its owner that resolves to this machine, but not a
 * plain address, localhost, or a name that the operator lists.
 */
function hostCheck(names: readonly string[]): (host: string) => boolean {
  const known = new Set(["localhost", ...names.map((name) => name.toLowerCase())]);
  return (host) => {
    const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?$/.exec(host.toLowerCase());
    if (match === null) return false;
    const [, v6, name = ""] = match;
    return v6 !== undefined ? isIP(v6) === 6 : isIP(name) === 4 || known.has(name.replace(/\.$/, ""));
  };
}

/** Browsers send these headers; other clients do not. */
function isCrossSite({ origin, host = "", "sec-fetch-site": site }: IncomingHttpHeaders): boolean {
  if (site !== undefined && site !== "same-origin" && site !== "none") return true;
  if (origin === undefined) return false;
  return !/^https?:\/\//.test(origin) || origin.replace(/^https?:\/\//, "").toLowerCase() !== host.toLowerCase();
}
