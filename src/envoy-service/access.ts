/** Decides who may call the Envoy listener: addresses listed in control.allow, with control.plane_token if that is set. */
import type { EnvoyServiceOptions } from "../config/options/service.js";
import { createAddressMatcher, plainAddress } from "../shared/addresses.js";
import { bearerToken, tokenCheck } from "../shared/bearer-token.js";
import { createFailedLogins } from "../shared/failed-logins.js";

/** An empty `planeToken`: no token is needed. */
export type EnvoyAccess = EnvoyServiceOptions["access"];

export interface AccessDenial {
  kind: "forbidden" | "unauthenticated" | "locked";
  detail: string;
}

/** Checks the Authorization header of a request on one connection. */
export type AccessCheck = (authorization: string | undefined) => AccessDenial | undefined;

const forbidden: AccessDenial = { kind: "forbidden", detail: "control.allow does not list this address" };
const unauthenticated = (detail: string): AccessDenial => ({ kind: "unauthenticated", detail });
const missing = unauthenticated("the bearer token of data planes (control.plane_token) is needed");
const wrong = unauthenticated("this is not the bearer token of data planes (control.plane_token)");
const locked: AccessDenial = { kind: "locked", detail: "too many wrong tokens from this address; try again later" };

export type AccessChecks = ReturnType<typeof createAccessChecks>;

/** `access` returns another object when it changes. */
export function createAccessChecks(access: () => EnvoyAccess) {
  const failures = createFailedLogins({ now: () => performance.now() });
  let current: EnvoyAccess | undefined;
  let isAllowed = (_address: string) => false;
  let isToken = (_token: string) => false;

  function currentAccess(): EnvoyAccess {
    const latest = access();
    if (current !== latest) {
      current = latest;
      isAllowed = createAddressMatcher(latest.allow);
      isToken = tokenCheck(latest.planeToken);
    }
    return latest;
  }

  function denialOf(address: string, authorization: string | undefined): AccessDenial | undefined {
    const { planeToken } = currentAccess();
    if (!isAllowed(address)) return forbidden;
    if (planeToken === "") return undefined;
    const token = bearerToken(authorization);
    if (token === "") return missing;
    if (failures.waitMs(address) > 0) return locked;
    if (isToken(token)) {
      failures.succeeded(address);
      return undefined;
    }
    failures.failed(address);
    return wrong;
  }

  /** The check of one connection. */
  function forAddress(remoteAddress: string): AccessCheck {
    const address = plainAddress(remoteAddress);
    let accepted: { access: EnvoyAccess; authorization: string | undefined } | undefined;
    return (authorization) => {
      const latest = access();
      // Not compared in constant time: only a connection that has sent the right token gets here.
      if (accepted?.access === latest && accepted.authorization === authorization) return undefined;
      const denial = denialOf(address, authorization);
      if (denial === undefined) accepted = { access: latest, authorization };
      return denial;
    };
  }

  return {
    forAddress,
    isAllowed(remoteAddress: string): boolean {
      currentAccess();
      return isAllowed(plainAddress(remoteAddress));
    },
  };
}
