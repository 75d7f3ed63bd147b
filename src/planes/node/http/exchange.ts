/** One request and its response: admitted, forwarded, streamed, and settled exactly once, however it ends. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Dispatcher } from "undici";
import { type GatewayError, gatewayRefusal } from "../../../core/refusals.js";
import type { Settings } from "../settings.js";
import type { Shared } from "../shared.js";
import { type Connection, endsNow, type Running } from "../upgrade/connections.js";
import { type Failure, mayRepeat, reasonOf } from "../upstream/failures.js";
import type { Target, Upstream } from "../upstream/upstream.js";
import type { Arrival, Verdict } from "./admission.js";
import { answerEarly, closeSlowly, cut } from "./early-answers.js";
import { fieldsOf, logFailure, type Told } from "./exchange-log.js";
import { earlyHints, requestHeaders, responseHead, trailerPairs } from "./forwarded-heads.js";
import { asReadable, type BodyWatcher, RequestBody } from "./request-body.js";
import { type RequestHead, valuesOf } from "./request-head.js";

/**
 * A class, and the handler of undici's dispatch itself: at some ten thousand exchanges per second, closures and wrappers
 * would be most of the work. These are the handler methods that undici calls directly, without adapting them.
 */
export class Exchange<V extends Verdict> implements Arrival, Running, BodyWatcher, Dispatcher.DispatchHandler {
  readonly method: string;
  readonly remoteAddress: string;
  readonly contentLength: number;

  private verdict: V | undefined;
  private readonly body: RequestBody | undefined;
  private requestBytes = 0;
  private responseBytes = 0;
  private ended = false;
  /** Nothing that the backend does matters any more. */
  private stopped = false;
  private touchedMs: number;

  private target: Target | undefined;
  private headers: string[] = [];
  private retried = false;
  /** Of the current attempt. */
  private connected = false;
  private responding = false;
  private abortAttempt: ((error?: Error) => void) | undefined;
  private resumeAttempt: (() => void) | undefined;
  private clientIsSlow = false;
  private drainAwaited = false;

  constructor(
    private readonly shared: Shared,
    private readonly settings: Settings<V>,
    private readonly connection: Connection,
    private readonly request: IncomingMessage,
    private readonly response: ServerResponse,
    private readonly head: RequestHead,
    private readonly upstream: Upstream,
    private readonly expectsContinue: boolean,
  ) {
    this.method = request.method ?? "";
    this.remoteAddress = connection.remoteAddress;
    this.contentLength = head.contentLength;
    this.touchedMs = shared.clockMs;
    this.body = head.contentLength === 0 ? undefined : new RequestBody(request, this);
    connection.running.add(this);
    upstream.hold();
  }

  headerValues(name: string): string[] {
    return valuesOf(this.request.rawHeaders, name);
  }

  get requestComplete(): boolean {
    return this.request.complete;
  }

  /** Phase two. No promise is made where the decider needs none. */
  start(): void {
    const verdict = this.settings.admission.admit(this);
    if (!(verdict instanceof Promise)) {
      this.decided(verdict);
      return;
    }
    verdict.then(
      (later) => this.decided(later),
      (error) => this.fail("internal_error", error),
    );
  }

  private decided(verdict: V): void {
    if (this.ended) {
      // The client left while the decision was made.
      if (verdict.allowed) this.settings.admission.settle(verdict, 0, 0);
    } else if (verdict.allowed) {
      this.verdict = verdict;
      this.forward();
    } else this.refuse(verdict.status, verdict.body, verdict.headers, true);
  }

  /** Phase three: choose a target and send. */
  private forward(): void {
    const { head, upstream } = this;
    this.headers = requestHeaders(head, this.connection, this.shared.via, upstream.passHost);
    const target = upstream.pick();
    if (target === undefined) this.fail("no_target");
    else this.attempt(target);
  }

  private attempt(target: Target): void {
    this.target = target;
    this.connected = false;
    this.touchedMs = this.shared.clockMs;
    target.outstanding++;
    target.pool.dispatch(
      {
        path: this.head.target,
        method: this.method,
        headers: this.headers,
        body: this.body === undefined ? null : asReadable(this.body),
        // Pipelining is off: nothing can be held up behind this request.
        blocking: false,
        ...(this.method === "HEAD" && this.body === undefined ? { reset: false } : undefined),
      },
      this,
    );
  }

  bodyWanted(): void {
    this.touchedMs = this.shared.clockMs;
    if (this.expectsContinue) this.response.writeContinue();
  }

  bodyMoved(bytes: number): boolean {
    this.touchedMs = this.shared.clockMs;
    if (this.requestBytes + bytes > this.settings.limits.bodyBytes) {
      this.fail("body_too_large");
      return false;
    }
    this.requestBytes += bytes;
    return true;
  }

  onConnect(abort: (error?: Error) => void): void {
    // It may have waited in line for a connection, and nobody waits for it any more.
    if (this.stopped) {
      abort();
      return;
    }
    this.abortAttempt = abort;
    this.connected = true;
    this.touchedMs = this.shared.clockMs;
  }

  onResponseStarted(): void {
    this.responding = true;
  }

  onHeaders(status: number, raw: Buffer[], resume: () => void): boolean {
    this.touchedMs = this.shared.clockMs;
    if (status < 200) {
      const link = status === 103 && this.request.httpVersionMinor !== 0 ? earlyHints(raw) : [];
      if (link.length > 0) this.response.writeEarlyHints({ link });
      return true;
    }
    const { response, shared } = this;
    this.resumeAttempt = resume;
    const close = shared.draining || endsNow(this.connection);
    const trailers = this.request.httpVersionMinor !== 0;
    const { headers, contentLength } = responseHead(raw, this.verdict!.headers, shared.via, trailers, close);
    response.writeHead(status, headers);
    // Node keeps the head back until there is a body; an event stream may not have one for long.
    if (contentLength !== "0") process.nextTick(flushHead, this);
    return true;
  }

  flushHead(): void {
    if (!this.ended && this.responseBytes === 0) this.response.flushHeaders();
  }

  onData(chunk: Buffer): boolean {
    this.touchedMs = this.shared.clockMs;
    // The connection is gone; its end is about to be announced.
    if (this.response.destroyed) return false;
    this.responseBytes += chunk.length;
    if (this.response.write(chunk)) return true;
    this.clientIsSlow = true;
    if (!this.drainAwaited) {
      this.drainAwaited = true;
      this.response.on("drain", () => this.onDrain());
    }
    return false;
  }

  private onDrain(): void {
    if (this.ended || !this.clientIsSlow) return;
    this.clientIsSlow = false;
    this.touchedMs = this.shared.clockMs;
    this.resumeAttempt?.();
  }

  onComplete(trailers: (Buffer | string)[] | null): void {
    const { response, connection, request } = this;
    if (trailers !== null && trailers.length > 0 && response.chunkedEncoding) {
      response.addTrailers(trailerPairs(trailers));
    }
    this.upstream.succeeded(this.target!);
    // Answered before the request was whole: the rest is not wanted, and may be too much to wait for.
    const early = this.body !== undefined && !request.complete;
    if (early) closeSlowly(connection, this.settings.timeouts.lingerMs);
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
    this.upstream.failed(failed);
    const other = this.otherThan(failed);
    if (other === undefined) {
      this.fail(reason, error);
      return;
    }
    this.report(reason, error, other);
    this.retried = true;
    failed.outstanding--;
    this.attempt(other);
  }

  /** The target for a second try, of which there is one at most. A lone target gets it if only a connection was stale. */
  private otherThan(failed: Target): Target | undefined {
    const { connected, responding } = this;
    const progress = { connected, responding, bodyStarted: this.body?.started === true };
    if (this.retried || !mayRepeat(this.method, progress)) return undefined;
    return this.upstream.pick(failed) ?? (connected ? failed : undefined);
  }

  /** Called by the sweep. */
  checkTime(): void {
    if (this.verdict === undefined) return;
    const { timeouts } = this.settings;
    const idle = this.shared.clockMs - this.touchedMs;
    const { body } = this;
    const sending = body?.started === true && !body.complete;
    let allowed = timeouts.bodyIdleMs;
    if (!sending && !this.response.headersSent) {
      allowed = timeouts.responseMs + (this.connected ? 0 : timeouts.connectMs);
    }
    if (idle <= allowed) return;
    if (this.clientIsSlow || (sending && !body.paused)) {
      this.fail("body_timeout");
    } else {
      this.upstream.failed(this.target!);
      this.fail("upstream_timeout");
    }
  }

  clientGone(): void {
    if (this.ended) return;
    this.shared.log.info({ ...fieldsOf(this.told()), bytes: this.responseBytes }, "client left");
    this.stopAttempt();
    this.end();
  }

  /** Ends the exchange with an answer where one can still be given, else by cutting the connection. */
  fail(reason: GatewayError, cause?: unknown): void {
    if (this.ended) return;
    this.report(reason, cause);
    this.stopAttempt();
    if (this.response.headersSent) {
      cut(this.connection, this.request);
      this.end();
      return;
    }
    const { status, body } = gatewayRefusal(reason);
    this.refuse(status, body, this.verdict?.headers ?? {}, status >= 500);
  }

  private refuse(status: number, body: string, headers: Record<string, string>, patient: boolean): void {
    const { request, response, connection, contentLength, expectsContinue } = this;
    const { lingerMs } = this.settings.timeouts;
    answerEarly(
      { connection, request, response, contentLength, expectsContinue, lingerMs },
      { status, body, headers, patient, last: this.shared.draining },
      () => this.end(),
    );
  }

  private stopAttempt(): void {
    this.stopped = true;
    this.abortAttempt?.();
  }

  /** Phase four. */
  private end(): void {
    if (this.ended) return;
    this.ended = true;
    this.stopped = true;
    const { connection, verdict } = this;
    connection.running.delete(this);
    connection.readBytes = connection.socket.bytesRead;
    if (this.target !== undefined) this.target.outstanding--;
    this.upstream.release();
    this.body?.destroy();
    if (verdict !== undefined) this.settings.admission.settle(verdict, this.requestBytes, this.responseBytes);
  }

  private report(reason: GatewayError, cause?: unknown, retryOn?: Target): void {
    logFailure(this.shared.log, "exchange failed", this.told(), { reason, cause, retryOn });
  }

  private told(): Told {
    const { method, head, upstream, target, remoteAddress } = this;
    return { method, path: head.path, upstream, target, client: remoteAddress };
  }
}

function flushHead<V extends Verdict>(exchange: Exchange<V>): void {
  exchange.flushHead();
}
