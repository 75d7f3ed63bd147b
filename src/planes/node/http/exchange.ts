/** One request and its response: admitted, forwarded, streamed, and settled exactly once. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Dispatcher } from "undici";
import { type GatewayError, gatewayRefusal } from "../../../core/refusals.js";
import { printable } from "../../../shared/printable.js";
import type { OptionsInForce, Shared } from "../options.js";
import { type Connection, closeSlowly, endsNow, type Running } from "../upgrade/connections.js";
import { causeOf, type Failure, mayRepeat, reasonOf } from "../upstream/failures.js";
import type { Target, Upstream } from "../upstream/upstream.js";
import type { Arrival, Verdict } from "./admission.js";
import { earlyHints, requestHeaders, responseHead, trailerPairs } from "./forwarded-heads.js";
import { asReadable, type BodyWatcher, RequestBody } from "./request-body.js";
import { type RequestHead, valuesOf } from "./request-head.js";
import { send } from "./responses.js";

/** Larger bodies of refused requests are not read: the connection is closed. */
const MAX_DISCARDED = 65_536;

/** A request whose head was read and whose route was found. */
export interface RoutedRequest {
  shared: Shared;
  options: OptionsInForce;
  connection: Connection;
  request: IncomingMessage;
  response: ServerResponse;
  head: RequestHead;
  upstream: Upstream;
  expectsContinue: boolean;
}

/**
 * A class that is its own handler for undici: at ten thousand exchanges per second closures and wrappers would be most of
 * the work. undici calls these handler methods directly, without an adapter.
 */
export class Exchange implements Arrival, Running, BodyWatcher, Dispatcher.DispatchHandler {
  readonly method: string;
  readonly remoteAddress: string;
  readonly contentLength: number;

  private verdict: Verdict | undefined;
  private readonly body: RequestBody | undefined;
  private requestBytes = 0;
  private responseBytes = 0;
  private ended = false;
  /** Ignore the backend from now on. */
  private stopped = false;
  private touchedMs: number;

  private target: Target | undefined;
  private headers: string[] = [];
  private retried = false;
  /** State of the current attempt. */
  private connected = false;
  private responding = false;
  private abortAttempt: ((error?: Error) => void) | undefined;
  private resumeAttempt: (() => void) | undefined;
  private clientIsSlow = false;
  private drainAwaited = false;

  constructor(private readonly routed: RoutedRequest) {
    const { shared, connection, request, head, upstream } = routed;
    this.method = request.method ?? "";
    this.remoteAddress = connection.remoteAddress;
    this.contentLength = head.contentLength;
    this.touchedMs = shared.clockMs;
    this.body = head.contentLength === 0 ? undefined : new RequestBody(request, this);
    connection.running.add(this);
    upstream.hold();
  }

  headerValues(name: string): string[] {
    return valuesOf(this.routed.request.rawHeaders, name);
  }

  get requestComplete(): boolean {
    return this.routed.request.complete;
  }

  /** Admits the request, without a promise if the decision is immediate. */
  start(): void {
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
    } else if (verdict.allowed) {
      this.verdict = verdict;
      this.forward();
    } else this.respond(verdict.status, verdict.body, verdict.headers, true);
  }

  private forward(): void {
    const { head, upstream, connection, shared } = this.routed;
    this.headers = requestHeaders(head, connection, shared.via, upstream.passHost);
    const target = upstream.pick();
    if (target === undefined) this.fail("no_target");
    else this.attempt(target);
  }

  private attempt(target: Target): void {
    this.target = target;
    this.connected = false;
    this.touchedMs = this.routed.shared.clockMs;
    target.outstanding++;
    target.pool.dispatch(
      {
        path: this.routed.head.target,
        method: this.method,
        headers: this.headers,
        body: this.body === undefined ? null : asReadable(this.body),
        // Pipelining is off, so no other request waits behind this one.
        blocking: false,
        ...(this.method === "HEAD" && this.body === undefined ? { reset: false } : undefined),
      },
      this,
    );
  }

  bodyWanted(): void {
    this.touchedMs = this.routed.shared.clockMs;
    if (this.routed.expectsContinue) this.routed.response.writeContinue();
  }

  bodyMoved(bytes: number): boolean {
    this.touchedMs = this.routed.shared.clockMs;
    if (this.requestBytes + bytes > this.routed.options.limits.bodyBytes) {
      this.fail("body_too_large");
      return false;
    }
    this.requestBytes += bytes;
    return true;
  }

  onConnect(abort: (error?: Error) => void): void {
    // The client disconnected while the request was queued.
    if (this.stopped) {
      abort();
      return;
    }
    this.abortAttempt = abort;
    this.connected = true;
    this.touchedMs = this.routed.shared.clockMs;
  }

  onResponseStarted(): void {
    this.responding = true;
  }

  onHeaders(status: number, raw: Buffer[], resume: () => void): boolean {
    this.touchedMs = this.routed.shared.clockMs;
    if (status < 200) {
      const link = status === 103 && this.routed.request.httpVersionMinor !== 0 ? earlyHints(raw) : [];
      if (link.length > 0) this.routed.response.writeEarlyHints({ link });
      return true;
    }
    const { response, request, connection, shared } = this.routed;
    this.resumeAttempt = resume;
    const close = shared.draining || endsNow(connection);
    const trailers = request.httpVersionMinor !== 0;
    const { headers, contentLength } = responseHead(raw, this.verdict!.headers, { via: shared.via, trailers, close });
    response.writeHead(status, headers);
    // Node buffers the head until the first byte of the body, which may take long in an event stream.
    if (contentLength !== "0") process.nextTick(flushHead, this);
    return true;
  }

  flushHead(): void {
    if (!this.ended && this.responseBytes === 0) this.routed.response.flushHeaders();
  }

  onData(chunk: Buffer): boolean {
    this.touchedMs = this.routed.shared.clockMs;
    // The client disconnected; `clientGone` follows.
    if (this.routed.response.destroyed) return false;
    this.responseBytes += chunk.length;
    if (this.routed.response.write(chunk)) return true;
    this.clientIsSlow = true;
    if (!this.drainAwaited) {
      this.drainAwaited = true;
      this.routed.response.on("drain", () => this.onDrain());
    }
    return false;
  }

  private onDrain(): void {
    if (this.ended || !this.clientIsSlow) return;
    this.clientIsSlow = false;
    this.touchedMs = this.routed.shared.clockMs;
    this.resumeAttempt?.();
  }

  onComplete(trailers: (Buffer | string)[] | null): void {
    const { response, connection, request, options } = this.routed;
    if (trailers !== null && trailers.length > 0 && response.chunkedEncoding) {
      response.addTrailers(trailerPairs(trailers));
    }
    this.routed.upstream.succeeded(this.target!);
    // The backend responded before it received the whole request: discard the rest.
    const early = this.body !== undefined && !request.complete;
    if (early) closeSlowly(connection, options.timeouts.lingerMs);
    if (!response.destroyed) response.end();
    this.end();
    if (early) request.resume();
    if (early || (endsNow(connection) && connection.running.size === 0)) connection.socket.destroySoon();
  }

  onError(error: Failure): void {
    if (this.stopped) return;
    const reason = reasonOf(error, this.connected);
    if (reason === "malformed_request") {
      this.fail(reason, error);
      return;
    }
    const failed = this.target!;
    this.routed.upstream.failed(failed);
    const other = this.retryTarget(failed);
    if (other === undefined) {
      this.fail(reason, error);
      return;
    }
    this.report(reason, error, { retry_on: other.origin });
    this.retried = true;
    failed.outstanding--;
    this.attempt(other);
  }

  /** The target of the only retry. An upstream with one target is retried if an idle connection had become stale. */
  private retryTarget(failed: Target): Target | undefined {
    const { connected, responding } = this;
    const progress = { connected, responding, bodyStarted: this.body?.started === true };
    if (this.retried || !mayRepeat(this.method, progress)) return undefined;
    return this.routed.upstream.pick(failed) ?? (connected ? failed : undefined);
  }

  /** Called by the proxy's timer. */
  checkTime(): void {
    if (this.verdict === undefined) return;
    const { timeouts } = this.routed.options;
    const idle = this.routed.shared.clockMs - this.touchedMs;
    const { body } = this;
    const sending = body?.started === true && !body.complete;
    let allowed = timeouts.bodyIdleMs;
    if (!sending && !this.routed.response.headersSent) {
      allowed = timeouts.responseMs + (this.connected ? 0 : timeouts.connectMs);
    }
    if (idle <= allowed) return;
    if (this.clientIsSlow || (sending && !body.paused)) {
      this.fail("body_timeout");
    } else {
      this.routed.upstream.failed(this.target!);
      this.fail("upstream_timeout");
    }
  }

  clientGone(): void {
    if (this.ended) return;
    this.routed.shared.log.info({ ...this.logFields(), bytes: this.responseBytes }, "client disconnected");
    this.stopAttempt();
    this.end();
  }

  /** Ends the exchange with an error response, or aborts the response if its head was sent. */
  fail(reason: GatewayError, cause?: unknown): void {
    if (this.ended) return;
    this.report(reason, cause);
    this.stopAttempt();
    if (this.routed.response.headersSent) {
      const { socket } = this.routed.connection;
      // In HTTP/1.0 the end of the connection would look like the end of the body, a reset does not.
      if (this.routed.request.httpVersionMinor === 0) socket.resetAndDestroy();
      else socket.destroy();
      this.end();
      return;
    }
    const { status, body } = gatewayRefusal(reason);
    this.respond(status, body, this.verdict?.headers ?? {}, status >= 500);
  }

  /**
   * Responds before the whole request was read, so that a client that is still sending receives the response.
   * `valid`: a small body is read and discarded, so that the connection can be reused.
   */
  private respond(status: number, body: string, headers: Record<string, string>, valid: boolean): void {
    const { connection, request, response, shared, options, expectsContinue } = this.routed;
    const short = this.contentLength >= 0 && this.contentLength <= MAX_DISCARDED && !expectsContinue;
    const unread = this.contentLength !== 0 && !request.complete;
    if (unread && !(valid && short)) closeSlowly(connection, options.timeouts.lingerMs);
    this.end();
    const close = endsNow(connection) || shared.draining;
    if (close) connection.lastAnswered = true;
    send(response, { status, body, headers }, close);
    if (unread) request.resume();
  }

  private stopAttempt(): void {
    this.stopped = true;
    this.abortAttempt?.();
  }

  private end(): void {
    if (this.ended) return;
    this.ended = true;
    this.stopped = true;
    const { connection, upstream, options } = this.routed;
    const { verdict } = this;
    connection.running.delete(this);
    connection.readBytes = connection.socket.bytesRead;
    if (this.target !== undefined) this.target.outstanding--;
    upstream.release();
    this.body?.destroy();
    if (verdict !== undefined) options.admission.settle(verdict, this.requestBytes, this.responseBytes);
  }

  private report(reason: GatewayError, cause?: unknown, more?: { retry_on: string }): void {
    const fields = { reason, ...this.logFields(), ...(cause !== undefined && { cause: causeOf(cause) }), ...more };
    this.routed.shared.log.warn(fields, "exchange failed");
  }

  private logFields() {
    const { method, target, remoteAddress: client } = this;
    const { head, upstream } = this.routed;
    return { method, path: printable(head.path), upstream: upstream.name, target: target?.origin, client };
  }
}

function flushHead(exchange: Exchange): void {
  exchange.flushHead();
}
