/** Admission of requests: identifies the app, checks its limits, and settles when the exchange has ended. */
import { clientAddress } from "../../../core/address.js";
import { INVALID_TOKEN, OK } from "../../../core/codes.js";
import type { CostProfile } from "../../../core/cost.js";
import { ANONYMOUS_USER, type Identity } from "../../../core/identity.js";
import { limitedRefusal } from "../../../core/refusals.js";
import type { HeaderOptions } from "../../../core/response-headers.js";
import { UPGRADE } from "../../../engine/settle.js";
import type { RequestAttributes } from "../../../limit-rules/limit-rules.js";
import { decisionHeaders } from "../../../limiter/decision-headers.js";
import type { Decision, ExchangeEnd, Limiter, Meter, Transfer } from "../../../limiter/limiter.js";
import { createIdentification, type FoundIdentity, type IdentificationOptions } from "../identity/identification.js";
import type { Arrival } from "./arrival.js";

export type { Arrival };

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
  /** Called exactly once when an admitted exchange has ended, with the bytes of both bodies. */
  settle(verdict: Verdict, requestBytes: number, responseBytes: number, end?: ExchangeEnd): void;
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

export interface RateLimitAdmissionOptions extends IdentificationOptions {
  limiter: Pick<Limiter, "check" | "refuse" | "meter" | "settle">;
  /** Backends get app and user. */
  forwardIdentity: boolean;
  headers: HeaderOptions;
  /** The configuration has `limits`, which depend on more than the app. */
  hasLimits?: boolean;
}

const NOTHING: readonly string[] = [];
/** A class: one per request, and closures cost more. */
class ArrivalAttributes implements RequestAttributes {
  readonly app: string;
  readonly user: string;
  readonly method: string;
  readonly host: string;
  readonly path: string;
  readonly profile: CostProfile | undefined;

  constructor(
    private readonly arrival: Arrival,
    { app, user }: Identity,
    private readonly isTrustedHop: (address: string) => boolean,
  ) {
    const { host = "", path = "/", method, profile } = arrival;
    this.app = app;
    this.user = user;
    // Only a GET can be upgraded.
    this.method = method === UPGRADE ? "GET" : method;
    this.host = host;
    this.path = path;
    this.profile = profile;
  }

  /** Not all limits depend on it. */
  get address(): string {
    const { remoteAddress, forwardedFor = "" } = this.arrival;
    return clientAddress(remoteAddress, forwardedFor, this.isTrustedHop);
  }

  headerCount(name: string): number {
    return Math.min(this.arrival.headerValues(name).length, 2);
  }

  header(name: string): string {
    return this.arrival.headerValues(name)[0] ?? "";
  }
}

export function createRateLimitAdmission(options: RateLimitAdmissionOptions): Admission {
  const { limiter, isTrustedHop } = options;
  const headersOf = decisionHeaders(options.headers);
  const identified = createIdentification(options);

  function admit(arrival: Arrival): RateLimitVerdict | Promise<RateLimitVerdict> {
    const identity = identified(arrival);
    return identity instanceof Promise ? identity.then((later) => admitAs(arrival, later)) : admitAs(arrival, identity);
  }

  function admitAs(arrival: Arrival, identity: FoundIdentity): RateLimitVerdict | Promise<RateLimitVerdict> {
    if (identity.code !== OK) return refuse(arrival, identity);
    const needsMore = options.hasLimits || arrival.profile !== undefined;
    const attributes = needsMore ? new ArrivalAttributes(arrival, identity, isTrustedHop) : undefined;
    const made = limiter.check(identity.app, arrival.method, arrival.contentLength, attributes);
    const forwarded = forwardedIdentity(identity);
    return made instanceof Promise
      ? made.then((decision) => verdictOf(decision, forwarded))
      : verdictOf(made, forwarded);
  }

  function refuse({ method }: Arrival, { code, problem = "" }: FoundIdentity): RateLimitVerdict {
    const verdict = verdictOf(limiter.refuse(code, method));
    if (code === INVALID_TOKEN) {
      const error = problem === "" ? "" : ` error="invalid_token", error_description="${problem}"`;
      verdict.headers["WWW-Authenticate"] = `Bearer${error}`;
    }
    return verdict;
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
    settle: (verdict, requestBytes, responseBytes, end) =>
      limiter.settle((verdict as RateLimitVerdict).decision, requestBytes, responseBytes, end),
  };
}
