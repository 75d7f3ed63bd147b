/** What an exchange and an upgrade have in common: admission, log lines, and the end, which settles exactly once. */
import { type CostProfile, INVALID_COST } from "../../../core/cost.js";
import { type GatewayError, gatewayRefusal } from "../../../core/refusals.js";
import { printable } from "../../../shared/printable.js";
import type { OptionsInForce, Shared } from "../options.js";
import type { WantedUpgrade } from "../upgrade/upgrade-request.js";
import { causeOf } from "../upstream/failures.js";
import type { Target, Upstream } from "../upstream/upstream.js";
import type { Connection, Running } from "./client-connections.js";
import type { ClientRequest } from "./client-messages.js";
import type { Arrival, TransferMeter, Verdict } from "./request-admission.js";
import { type RequestHead, valuesOf } from "./request-head.js";
import type { JsonResponse } from "./responses.js";
import { type RequestSpan, setHeader, type Tracing } from "./tracing.js";

/** A request whose head was read and whose route was found. */
export interface RoutedRequest {
  shared: Shared;
  options: OptionsInForce;
  connection: Connection;
  request: ClientRequest;
  head: RequestHead;
  upstream: Upstream;
  /** The prices of the route, if it has its own. */
  profile: CostProfile | undefined;
  /** Header of responses with their cost, in lower case; undefined: the route has none. */
  costHeader: string | undefined;
  upgrade: WantedUpgrade | undefined;
  /** The address that its exchange is counted under; empty: it is not counted. */
  client: string;
}

export abstract class RunningRequest implements Arrival, Running {
  abstract readonly method: string;
  abstract readonly requestComplete: boolean;
  abstract checkTime(): void;
  abstract clientGone(): void;

  readonly remoteAddress: string;
  readonly contentLength: number;
  readonly host: string;
  readonly path: string;
  readonly forwardedFor: string;
  readonly profile: CostProfile | undefined;
  protected verdict: Verdict | undefined;
  /** Undefined before the first bytes of unknown length; null if the app is charged at the end only. */
  protected meter: TransferMeter | null | undefined;
  /** Added to the response. */
  protected headers: Record<string, string> = {};
  protected requestBytes = 0;
  protected responseBytes = 0;
  /** The cost that the backend has stated. */
  protected reportedCost = INVALID_COST;
  protected ended = false;
  protected touchedMs: number;
  protected span: RequestSpan | undefined;
  private startedMs = 0;

  constructor(
    protected readonly routed: RoutedRequest,
    private readonly failure: "exchange failed" | "upgrade failed",
  ) {
    const { shared, connection, head, upstream, profile } = routed;
    this.remoteAddress = connection.remoteAddress;
    this.contentLength = head.contentLength;
    this.host = head.host;
    this.path = head.path;
    this.forwardedFor = head.forwardedFor;
    this.profile = profile;
    this.touchedMs = shared.clockMs;
    connection.running.add(this);
    upstream.hold();
  }

  headerValues(name: string): string[] {
    return valuesOf(this.routed.request.rawHeaders, name);
  }

  /** Admits the request, without a promise if the decision is immediate. */
  start(): void {
    const { tracing } = this.routed.shared;
    if (tracing !== undefined) this.startedMs = tracing.now();
    const verdict = this.routed.options.admission.admit(this);
    if (!(verdict instanceof Promise)) {
      this.decided(verdict);
      return;
    }
    verdict.then(
      (later) => this.decided(later),
      (error) => this.fail("internal_error", error),
    );
  }

  private decided(verdict: Verdict): void {
    if (this.ended) {
      // The client disconnected during the decision.
      if (verdict.allowed) this.routed.options.admission.settle(verdict, 0, 0);
      return;
    }
    if (this.routed.shared.tracing !== undefined) this.trace(this.routed.shared.tracing, verdict);
    if (verdict.allowed) {
      this.verdict = verdict;
      this.headers = verdict.headers;
      if (this.mayRun(verdict)) this.forward();
      else this.fail("app_concurrency");
    } else this.respond(verdict, true);
  }

  private trace(tracing: Tracing, verdict: Verdict): void {
    this.span = tracing.decided(this, verdict, this.startedMs);
    if (this.span !== undefined) setHeader(this.routed.head.headers, "traceparent", this.span.traceparent);
  }

  /** False: the app has as many requests running as it may have. */
  protected mayRun(_verdict: Verdict): boolean {
    return true;
  }

  protected abstract forward(): void;

  /** Ends the request with a response of the proxy. `valid`: the connection may be reused. */
  protected abstract respond(response: JsonResponse, valid: boolean): void;

  /** Ends the request with an error. */
  fail(reason: GatewayError, cause?: unknown): void {
    if (this.ended) return;
    this.report(reason, cause);
    this.respondWith(reason);
  }

  protected respondWith(reason: GatewayError): void {
    const { status, body } = gatewayRefusal(reason);
    this.respond({ status, body, headers: this.headers }, status >= 500 || status === 429);
  }

  protected end(): void {
    if (this.ended) return;
    this.ended = true;
    const { connection, upstream, options, shared } = this.routed;
    connection.running.delete(this);
    connection.idleSinceMs = shared.clockMs;
    connection.readBytes = connection.socket.bytesRead;
    this.stop();
    upstream.release();
    this.meter?.close();
    this.span?.end();
    if (this.verdict !== undefined) {
      const { meter, reportedCost } = this;
      options.admission.settle(this.verdict, this.requestBytes, this.responseBytes, {
        metered: meter?.taken,
        reportedCost,
      });
    }
  }

  /** Called once, at the end: leaves the backend and the client's input. */
  protected abstract stop(): void;

  protected abstract readonly target: Target | undefined;

  protected report(reason: string, cause?: unknown, more?: { retry_on: string }): void {
    const fields = { reason, ...this.logFields(), ...(cause !== undefined && { cause: causeOf(cause) }), ...more };
    this.routed.shared.log.warn(fields, this.failure);
  }

  protected logFields() {
    const { method, target, remoteAddress: client } = this;
    const { head, upstream } = this.routed;
    return { method, path: printable(head.path), upstream: upstream.name, target: target?.origin, client };
  }
}
