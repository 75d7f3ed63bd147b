/** Verifies the JSON Web Tokens of requests, and remembers those that are valid. */
import { createHash } from "node:crypto";
import { errors, type JWTPayload, type JWTVerifyOptions, jwtVerify } from "jose";
import type { TokenOptions } from "../../../config/options/limiter.js";
import { INVALID_TOKEN, OK, TOKEN_KEYS_UNAVAILABLE } from "../../../core/codes.js";
import { isIdentifier } from "../../../core/platform.js";
import type { TokenKeys } from "./token-keys.js";

export interface CheckedToken {
  /** OK, INVALID_TOKEN or TOKEN_KEYS_UNAVAILABLE. */
  code: string;
  /** Empty if tokens do not name the app. */
  app: string;
  /** Empty if the token does not name the user. */
  user: string;
  /** Why it is invalid. Contains nothing of the token. */
  problem: string;
}

export interface TokenVerifier {
  readonly required: boolean;
  /** Immediate for a token that was verified before. Never throws. */
  verify(token: string): CheckedToken | Promise<CheckedToken>;
}

interface Known {
  checked: CheckedToken;
  /** Milliseconds since 1970. */
  until: number;
}

const MAX_KNOWN = 10_000;
const USER = /^[!-~]{1,128}$/;

export function createTokenVerifier(
  options: TokenOptions,
  keys: TokenKeys,
  now: () => number = Date.now,
): TokenVerifier {
  const { issuer, audience, algorithms, clockToleranceS } = options;
  /** By digest, so that a memory dump does not contain tokens. In the order of their verification. */
  const known = new Map<string, Known>();
  let version = keys.version();

  /** Keys may have been withdrawn. */
  function forgetOld(): void {
    if (version === keys.version()) return;
    version = keys.version();
    known.clear();
  }

  async function verifyNew(token: string, digest: string): Promise<CheckedToken> {
    if (keys.current() === undefined) await keys.refresh();
    if (keys.current() === undefined) return problem("the keys could not be read", TOKEN_KEYS_UNAVAILABLE);
    let made = await attempt(token);
    if (made instanceof errors.JWKSNoMatchingKey) {
      // The issuer may have begun to use another key.
      await keys.refresh();
      made = await attempt(token);
    }
    if (made instanceof Error) return problem(problemOf(made));
    const checked = claimsOf(made);
    if (checked.code === OK) {
      forgetOld();
      if (known.size >= MAX_KNOWN) known.delete(known.keys().next().value!);
      known.set(digest, { checked, until: (made.exp! + clockToleranceS) * 1000 });
    }
    return checked;
  }

  async function attempt(token: string): Promise<JWTPayload | Error> {
    const verification: JWTVerifyOptions = {
      algorithms,
      requiredClaims: ["exp"],
      clockTolerance: clockToleranceS,
      currentDate: new Date(now()),
      ...(issuer === undefined ? {} : { issuer }),
      ...(audience.length === 0 ? {} : { audience }),
    };
    try {
      return (await jwtVerify(token, keys.current()!, verification)).payload;
    } catch (error) {
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) return error as Error;
      for await (const key of error) {
        try {
          return (await jwtVerify(token, key, verification)).payload;
        } catch (failure) {
          if (!(failure instanceof errors.JWSSignatureVerificationFailed)) return failure as Error;
        }
      }
      return new errors.JWSSignatureVerificationFailed();
    }
  }

  function claimsOf(payload: JWTPayload): CheckedToken {
    const { appClaim, userClaim } = options;
    const app = appClaim === undefined ? "" : claim(payload, appClaim);
    const user = claim(payload, userClaim) ?? "";
    if (typeof app !== "string" || (appClaim !== undefined && !isIdentifier(app))) {
      return problem("the claim with the app is missing or invalid");
    }
    if (typeof user !== "string" || (user !== "" && !USER.test(user))) {
      return problem("the claim with the user is invalid");
    }
    return { code: OK, app, user, problem: "" };
  }

  return {
    required: options.required,
    verify(token) {
      forgetOld();
      const digest = createHash("sha256").update(token).digest("base64");
      const before = known.get(digest);
      if (before !== undefined && now() < before.until) return before.checked;
      known.delete(digest);
      return verifyNew(token, digest);
    },
  };
}

/** A claim of this name; the prototype has none. */
function claim(payload: JWTPayload, name: string): unknown {
  return Object.hasOwn(payload, name) ? payload[name] : undefined;
}

const problem = (text: string, code = INVALID_TOKEN): CheckedToken => ({ code, app: "", user: "", problem: text });

function problemOf(error: Error): string {
  if (error instanceof errors.JWTExpired) return "the token has expired";
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim: name, reason } = error;
    if (reason === "missing") return `the claim ${name} is missing`;
    return name === "nbf" ? "the token is not valid yet" : `the claim ${name} is not accepted`;
  }
  if (error instanceof errors.JOSEAlgNotAllowed) return "the algorithm is not accepted";
  if (error instanceof errors.JWKSNoMatchingKey) return "no key matches the token";
  if (error instanceof errors.JWSSignatureVerificationFailed) return "the signature is wrong";
  return "the token is malformed";
}
