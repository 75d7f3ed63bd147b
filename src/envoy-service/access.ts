/** Decides who may call the Envoy listener: addresses listed in control.allow, with the credentials of a data plane if there are any. */
import type { Socket } from "node:net";
import type { EnvoyServiceOptions } from "../config/options/service.js";
import { bearerToken } from "../shared/access/bearer-token.js";
import { createFailedLogins } from "../shared/access/failed-logins.js";
import { createPlanes, type Planes } from "../shared/access/planes.js";
import { createAddressMatcher, plainAddress } from "../shared/addresses.js";
import { certificateNames } from "../shared/tls/certificate-names.js";

/** Without a token and planes, no credentials are needed. */
export type EnvoyAccess = EnvoyServiceOptions["access"];

export interface AccessDenial {
  kind: "forbidden" | "unauthenticated" | "locked";
  detail: string;
}

/** Checks the Authorization header of a request on one connection. Undefined: the caller is authorized. */
export type AccessCheck = (authorization: string | undefined) => AccessDenial | undefined;

const forbidden = (detail: string): AccessDenial => ({ kind: "forbidden", detail });
const unauthenticated = (detail: string): AccessDenial => ({ kind: "unauthenticated", detail });
const CREDENTIALS = "(control.plane_token or control.planes)";
const outside = forbidden("control.allow does not list this address");
const locked: AccessDenial = { kind: "locked", detail: "too many wrong tokens from this address; try again later" };
const denials = {
  no_token: unauthenticated(`the bearer token of data planes ${CREDENTIALS} is needed`),
  wrong_token: unauthenticated(`this is not the bearer token of data planes ${CREDENTIALS}`),
  wrong_plane: forbidden("token and certificate belong to different data planes"),
};

export type AccessChecks = ReturnType<typeof createAccessChecks>;

/** `access` returns another object when it changes. */
export function createAccessChecks(access: () => EnvoyAccess) {
  const failures = createFailedLogins({ now: () => performance.now() });
  let current: EnvoyAccess | undefined;
  let isAllowed = (_address: string) => false;
  let planes: Planes;

  function update(): EnvoyAccess {
    const latest = access();
    if (current !== latest) {
      current = latest;
      isAllowed = createAddressMatcher(latest.allow);
      planes = createPlanes(latest);
    }
    return latest;
  }

  function denialOf(socket: Socket, address: string, authorization: string | undefined): AccessDenial | undefined {
    if (!isAllowed(address)) return outside;
    if (!planes.isConfigured) return undefined;
    const token = bearerToken(authorization);
    if (token !== "" && failures.waitMs(address) > 0) return locked;
    const identity = planes.identify(token, certificateNames(socket));
    if ("denied" in identity) {
      if (identity.denied === "wrong_token") failures.failed(address);
      return denials[identity.denied];
    }
    if (token !== "") failures.succeeded(address);
    return undefined;
  }

  /** The check of one connection. */
  function forConnection(socket: Socket): AccessCheck {
    const address = plainAddress(socket.remoteAddress ?? "");
    let accepted: { access: EnvoyAccess; authorization: string | undefined } | undefined;

    function check(authorization: string | undefined): AccessDenial | undefined {
      const latest = update();
      // Not compared in constant time: only a connection that has sent the right token gets here.
      if (accepted?.access === latest && accepted.authorization === authorization) return undefined;
      const denial = denialOf(socket, address, authorization);
      if (denial === undefined) accepted = { access: latest, authorization };
      return denial;
    }

    return check;
  }

  return {
    forConnection,
    isAllowed(remoteAddress: string): boolean {
      update();
      return isAllowed(plainAddress(remoteAddress));
    },
  };
}
