/** Admission of requests: identifies the app, checks its limits, and settles when the exchange has ended. */
import { createHash } from "node:crypto";
import { clientAddress } from "../../../core/address.js";
import { OK } from "../../../core/codes.js";
import { ANONYMOUS_USER, type Identity, type IdentityRules, identify } from "../../../core/identity.js";
import { decisionHeaders, type HeaderOptions, limitedRefusal } from "../../../core/refusals.js";
import type { RequestAttributes } from "../../../descriptors/limit-rules.js";
import type { Decision, Limiter, Meter, Transfer } from "../../../limiter/limiter.js";

/** The part of a request that a decision needs. */
export interface Arrival {
  method: string;
  /** Of the client's socket. */
  remoteAddress: string;
  /** The declared length of the body; 0: no body, UNKNOWN_LENGTH: chunked. */
  contentLength: number;
  /** As in the Host header; empty without one. */
  host?: string;
  /** Without the query. */
  path?: string;
  /** X-Forwarded-For of a trusted client; otherwise empty. */
  forwardedFor?: string;
  /** The values of a header in order, as received; several if it was sent more than once. `name` in lower case. */
  headerValues(name: string): string[];
}

/** `headers` are added to the response, whether it is the backend's or the proxy's. */
export interface Verdict {
  allowed: boolean;
  headers: Record<string, string>;
  /** Of the response to a refused request. */
  status: number;
  body: string;
  /** The app that pays. */
  app: string;
  /** The app is on a dry run: nothing is refused because of its limits. */
  dryRun?: boolean | undefined;
  /** Headers for the backend, as a flat list: who the client is. */
  identity?: readonly string[];
  /** For traces. */
  decision?: Decision;
}

export interface Admission {
  /** Most decisions are immediate. Never throws. */
  admit(arrival: Arrival): Verdict | Promise<Verdict>;
  /** Without it, everything is charged at the end. */
  metering?: Metering;
  /** Called exactly once when an admitted exchange has ended, with the bytes of both bodies and what its meter has taken. */
  settle(verdict: Verdict, requestBytes: number, responseBytes: number, metered?: number): void;
}

export interface Metering {
  /** Charges an admitted exchange while it transfers bytes of unknown length; undefined: it is charged at the end. */
  start(verdict: Verdict, transfer: Transfer): TransferMeter | undefined;
  /** The response to an admitted request whose transfer is refused. */
  refusal(decision: Decision): Verdict;
}

export type TransferMeter = Pick<Meter, "add" | "close" | "taken" | "waiting">;

interface RateLimitVerdict extends Verdict {
  decision: Decision;
}

export interface RateLimitAdmissionOptions {
  limiter: Pick<Limiter, "check" | "refuse" | "meter" | "settle">;
  /** Headers that name app and user; trusted hops only. */
  appHeader: string;
  userHeader: string;
  apiKeyHeader: string;
  /** Secret → app. Stored as digests, so that neither a memory dump nor the lookup time reveals a key. */
  apiKeys: Record<string, string>;
  rules: IdentityRules;
  /** Backends get app and user. */
  forwardIdentity: boolean;
  headers: HeaderOptions;
  isTrustedHop(address: string): boolean;
  /** The configuration has `limits`, which depend on more than the app. */
  hasLimits?: boolean;
  isConfigured(app: string): boolean;
}

const NOTHING: readonly string[] = [];
/** A class: one per request, and closures cost more. */
class ArrivalAttributes implements RequestAttributes {
  readonly app: string;
  readonly user: string;
  readonly method: string;
  readonly host: string;
  readonly path: string;
  readonly address: string;

  constructor(
    private readonly arrival: Arrival,
    { app, user }: Identity,
    isTrustedHop: (address: string) => boolean,
  ) {
    const { host = "", path = "/", method, remoteAddress, forwardedFor = "" } = arrival;
    this.app = app;
    this.user = user;
    // Only a GET can be upgraded.
    this.method = method === "UPGRADE" ? "GET" : method;
    this.host = host;
    this.path = path;
    this.address = clientAddress(remoteAddress, forwardedFor, isTrustedHop);
  }

  headerCount(name: string): number {
    return Math.min(this.arrival.headerValues(name).length, 2);
  }

  header(name: string): string {
    return this.arrival.headerValues(name)[0] ?? "";
  }
}

const digest = (key: string) => createHash("sha256").update(key).digest("base64");

export function createRateLimitAdmission(options: RateLimitAdmissionOptions): Admission {
  const { limiter, rules, isTrustedHop, isConfigured } = options;
  const [appHeader, userHeader, keyHeader] = [options.appHeader, options.userHeader, options.apiKeyHeader].map((name) =>
    name.toLowerCase(),
  ) as [string, string, string];
  const headersOf = decisionHeaders(options.headers);
  const appOfKey = new Map(Object.entries(options.apiKeys).map(([key, app]) => [digest(key), app]));

  function appByKey(arrival: Arrival): string {
    if (appOfKey.size === 0) return "";
    const [key, ...more] = arrival.headerValues(keyHeader);
    return key === undefined || more.length > 0 ? "" : (appOfKey.get(digest(key)) ?? "");
  }

  function admit(arrival: Arrival): RateLimitVerdict | Promise<RateLimitVerdict> {
    const apps = arrival.headerValues(appHeader);
    const users = arrival.headerValues(userHeader);
    const claims = {
      hopTrusted: isTrustedHop(arrival.remoteAddress),
      appHeader: apps[0] ?? "",
      appHeaderCount: apps.length,
      userHeader: users[0] ?? "",
      userHeaderCount: users.length,
      apiKeyApp: appByKey(arrival),
    };
    const identity = identify(claims, rules, isConfigured);
    if (identity.code !== OK) return verdictOf(limiter.refuse(identity.code, arrival.method));
    const attributes = options.hasLimits ? new ArrivalAttributes(arrival, identity, isTrustedHop) : undefined;
    const made = limiter.check(identity.app, arrival.method, arrival.contentLength, attributes);
    const forwarded = forwardedIdentity(identity);
    return made instanceof Promise
      ? made.then((decision) => verdictOf(decision, forwarded))
      : verdictOf(made, forwarded);
  }

  function forwardedIdentity({ app, user }: Identity): readonly string[] {
    if (!options.forwardIdentity) return NOTHING;
    return user === ANONYMOUS_USER ? [options.appHeader, app] : [options.appHeader, app, options.userHeader, user];
  }

  function verdictOf(decision: Decision, identity = NOTHING): RateLimitVerdict {
    const { allowed, app, dryRun } = decision;
    const { status, body } = allowed ? { status: 200, body: "" } : limitedRefusal(decision);
    return { allowed, headers: headersOf(decision), status, body, app, dryRun, identity, decision };
  }

  return {
    admit,
    metering: {
      start: (verdict, transfer) => limiter.meter((verdict as RateLimitVerdict).decision, transfer),
      refusal: (decision) => verdictOf(decision),
    },
    settle: (verdict, requestBytes, responseBytes, metered) =>
      limiter.settle((verdict as RateLimitVerdict).decision, requestBytes, responseBytes, metered),
  };
}
