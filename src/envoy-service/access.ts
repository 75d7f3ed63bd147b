/** Who may call the Envoy listener: an address that control.allow lists, with the token of data planes where there is one. */
import { createHopTrust, plainAddress } from "../planes/node/http/trusted-hops.js";
import { bearerToken, tokenCheck } from "../shared/bearer-token.js";
import { createFailedLogins } from "../shared/failed-logins.js";

/** As the configuration has it now. */
export interface EnvoyAccess {
  /** Empty: none is asked for. */
  planeToken: string;
  allow: readonly string[];
}

export interface AccessRefusal {
  kind: "forbidden" | "unauthenticated" | "locked";
  text: string;
}

/** The door for one connection. */
export interface Door {
  refusal(authorization: string | undefined): AccessRefusal | undefined;
}

export interface Doors {
  /** `address` is the other end of a connection. */
  open(address: string): Door;
}

const forbidden: AccessRefusal = { kind: "forbidden", text: "control.allow does not list this address" };
const missing: AccessRefusal = {
  kind: "unauthenticated",
  text: "the bearer token of data planes (control.plane_token) is needed",
};
const wrong: AccessRefusal = {
  kind: "unauthenticated",
  text: "this is not the bearer token of data planes (control.plane_token)",
};
const locked: AccessRefusal = {
  kind: "locked",
  text: "too many wrong tokens came from this address; none is looked at for a while",
};

export function createDoors(access: () => EnvoyAccess, now: () => number): Doors {
  const failures = createFailedLogins({ now });
  let seen: EnvoyAccess | undefined;
  let isAllowed = (_address: string) => false;
  let isToken = (_token: string) => false;
  /** Changes with whatever is allowed, so that what was found before is found anew. */
  let version = 0;

  function follow(): EnvoyAccess {
    const current = access();
    if (seen === undefined || seen.allow !== current.allow || seen.planeToken !== current.planeToken) {
      seen = { ...current };
      isAllowed = createHopTrust(current.allow);
      isToken = tokenCheck(current.planeToken);
      version++;
    }
    return current;
  }

  function look(address: string, authorization: string | undefined, planeToken: string): AccessRefusal | undefined {
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

  return {
    open(remoteAddress) {
      const address = plainAddress(remoteAddress);
      let good: { version: number; authorization: string | undefined } | undefined;
      return {
        refusal(authorization) {
          const { planeToken } = follow();
          // Only a connection that has shown the right token is compared with it this way, so the time tells nobody anything.
          if (good !== undefined && good.version === version && good.authorization === authorization) return undefined;
          const refusal = look(address, authorization, planeToken);
          if (refusal === undefined) good = { version, authorization };
          return refusal;
        },
      };
    },
  };
}
