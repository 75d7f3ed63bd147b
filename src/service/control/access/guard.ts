/** Decides who may call the control listener: by client address, Host header, origin and token. */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { isIP } from "node:net";
import type { AccessOptions } from "../../../config/options/service.js";
import { bearerToken, tokenHolders } from "../../../shared/access/bearer-token.js";
import { createFailedLogins } from "../../../shared/access/failed-logins.js";
import { createPlanes } from "../../../shared/access/planes.js";
import { createAddressMatcher, plainAddress } from "../../../shared/addresses.js";
import { certificateNames } from "../../../shared/tls/certificate-names.js";
import { problem, type Reply, type Role } from "../../operations/endpoint.js";

export function addressOf({ socket }: IncomingMessage): string {
  return plainAddress(socket.remoteAddress ?? "");
}

export interface GuardOptions {
  access(): AccessOptions;
  /** Milliseconds, monotonic. */
  now(): number;
  /** The token of the session that a browser's cookie names; empty without a session. */
  sessionToken?: ((request: IncomingMessage) => string) | undefined;
  /** Callers on this machine need no token: only for the demo. */
  isOpen?: boolean | undefined;
}

export interface Admission {
  /** The error reply if the call is not allowed. */
  refusal?: Reply;
  /** The token that was accepted; empty if none is needed. */
  token: string;
  /** The name of the operator or data plane that the credentials belong to; empty if they are shared by several. */
  name: string;
  /** False for viewers. */
  mayChange: boolean;
  /** The caller has proved who it is, even if the endpoint does not require it. */
  hasCredentials: boolean;
}

const anybody: Admission = { token: "", name: "", mayChange: false, hasCredentials: false };
const refused = (refusal: Reply): Admission => ({ ...anybody, refusal });

export function createGuard({ access, now, sessionToken = () => "", isOpen = false }: GuardOptions) {
  let own = checks(access());
  const failures = { admin: createFailedLogins({ now }), plane: createFailedLogins({ now }) };

  /** Browsers send cookies by themselves, so pages of other sites must not be able to use a session. */
  function tokenWithoutHeader(request: IncomingMessage): string {
    if (isCrossSite(request.headers)) return "";
    const token = sessionToken(request);
    return token === "" && isOpen && isLoopback(addressOf(request)) ? own.access.adminToken : token;
  }

  /** @param onlyReads viewers may call */
  function checkToken(request: IncomingMessage, role: "plane" | "admin", onlyReads: boolean): Admission {
    if (role === "admin" ? !own.hasOperators : !own.planes.isConfigured) {
      return refused(forbidden(`${role}_disabled`, `${apis[role]} is disabled: configure ${options[role]}`));
    }
    const address = addressOf(request);
    const inHeader = bearerToken(request.headers.authorization);
    const token = inHeader === "" && role === "admin" ? tokenWithoutHeader(request) : inHeader;
    const waitMs = token === "" ? 0 : failures[role].waitMs(address);
    if (waitMs > 0) {
      const detail = "too many wrong tokens from this address; try again later";
      const headers = { "Retry-After": String(Math.ceil(waitMs / 1000)) };
      return refused({ ...problem(429, "too_many_requests", "failed_logins", { detail }), headers });
    }
    const holder = role === "admin" ? operatorWith(token) : planeWith(token, request);
    if ("denied" in holder) {
      if (holder.denied === "wrong_token") failures[role].failed(address);
      return refused(denials[holder.denied](role));
    }
    if (token !== "") failures[role].succeeded(address);
    const { name, mayChange } = holder;
    if (!mayChange && !onlyReads) return refused(forbidden("read_only", `${name} is a viewer and may only read`));
    return { token, name, mayChange, hasCredentials: true };
  }

  function hasCredentials(request: IncomingMessage): boolean {
    const inHeader = bearerToken(request.headers.authorization);
    if ("plane" in own.planes.identify(inHeader, certificateNames(request.socket))) return true;
    return own.operatorOf(inHeader === "" ? tokenWithoutHeader(request) : inHeader) !== undefined;
  }

  function operatorWith(token: string): Holder {
    if (token === "") return { denied: "no_token" };
    const operator = own.operatorOf(token);
    if (operator !== undefined) return operator;
    return { denied: own.planes.isToken(token) ? "wrong_role" : "wrong_token" };
  }

  function planeWith(token: string, { socket }: IncomingMessage): Holder {
    const identity = own.planes.identify(token, certificateNames(socket));
    if ("plane" in identity) return { name: identity.plane, mayChange: true };
    const isOperator = identity.denied === "wrong_token" && own.operatorOf(token) !== undefined;
    return isOperator ? { denied: "wrong_role" } : identity;
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

  return {
    /** @param changes the call is not read-only */
    admit(request: IncomingMessage, role: Role, changes: boolean): Admission {
      const refusal = peerRefusal(request, role, changes);
      if (refusal !== undefined) return refused(refusal);
      if (role === "public" || role === "address") return { ...anybody, hasCredentials: hasCredentials(request) };
      return checkToken(request, role === "plane" ? "plane" : "admin", role === "viewer");
    },
    /** @param plane as in `Admission.name` */
    mayActFor: (plane: string, node: string) => own.planes.mayActFor(plane, node),
  };
}

const isLoopback = createAddressMatcher(["127.0.0.0/8", "::1/128"]);

type Denial = "no_token" | "wrong_token" | "wrong_role" | "wrong_plane";
type Operator = Pick<Admission, "name" | "mayChange">;
type Holder = Operator | { denied: Denial };

const options = {
  admin: "control.admin_token, control.operators or control.viewers",
  plane: "control.plane_token or control.planes",
};
const holders = { admin: `operators (${options.admin})`, plane: `data planes (${options.plane})` };
const others = { admin: "plane", plane: "admin" } as const;
const denials: Record<Denial, (role: "admin" | "plane") => Reply> = {
  no_token: (role) => unauthorized("no_token", `the bearer token of ${holders[role]} is required`),
  wrong_token: (role) => unauthorized("wrong_token", `this is not the bearer token of ${holders[role]}`),
  wrong_role: (role) => forbidden("wrong_role", `this is the token of ${holders[others[role]]}`),
  wrong_plane: () => forbidden("wrong_plane", "token and certificate belong to different data planes"),
};
const apis = { admin: "the admin API", plane: "the API of data planes" };

function forbidden(reason: string, detail: string): Reply {
  return problem(403, "forbidden", reason, { detail });
}

function unauthorized(reason: string, detail: string): Reply {
  return { ...problem(401, "unauthorized", reason, { detail }), headers: { "WWW-Authenticate": "Bearer" } };
}

function named(holders: Record<string, string[]>, mayChange: boolean): [token: string, holder: Operator][] {
  return Object.entries(holders).flatMap(([name, tokens]) =>
    tokens.map((token): [string, Operator] => [token, { name, mayChange }]),
  );
}

function checks(access: AccessOptions) {
  return {
    access,
    isAllowed: createAddressMatcher(access.allow),
    isKnownHost: hostCheck(access.hosts),
    /** The name is empty for the token that operators share. */
    operatorOf: tokenHolders<Operator>([
      [access.adminToken, { name: "", mayChange: true }],
      ...named(access.operators, true),
      ...named(access.viewers, false),
    ]),
    hasOperators: [access.adminToken, ...Object.keys(access.operators), ...Object.keys(access.viewers)].some(
      (name) => name !== "",
    ),
    planes: createPlanes(access),
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
