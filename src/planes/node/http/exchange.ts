/** One request and its response: admitted, forwarded, streamed, and settled exactly once. */
import type { Readable } from "node:stream";
import type { Dispatcher } from "undici";
import { INVALID_COST } from "../../../core/cost.js";
import type { GatewayError } from "../../../core/refusals.js";
import { DRY_RUN_HEADER, dryRunText } from "../../../core/response-headers.js";
import type { Decision, Transfer } from "../../../limiter/limiter.js";
import { type Failure, mayRepeat, reasonOf } from "../upstream/failures.js";
import type { Target } from "../upstream/upstream.js";
import { closeSlowly, endsNow } from "./client-connections.js";
import type { ClientResponse } from "./client-messages.js";
import { latin1, requestHeaders, responseHead, trailerPairs } from "./forwarded-heads.js";
import type { Verdict } from "./request-admission.js";
import { type BodyWatcher, RequestBody } from "./request-body.js";
import { valuesOf } from "./request-head.js";
import { type JsonResponse, send } from "./responses.js";
import type { RoutedRequest } from "./running-request.js";
import { SeekingRequest } from "./seeking-request.js";

/** Larger bodies of refused requests are not read: the connection is closed. */
const MAX_DISCARDED = 65_536;

/**
 * A class that is its own handler for undici: at ten thousand exchanges per second closures and wrappers would be most of
 * the work. undici calls these handler methods directly, without an adapter.
 */
export class Exchange extends SeekingRequest implements BodyWatcher, Transfer, Dispatcher.DispatchHandler {
  readonly method: string;

  private readonly body: RequestBody | undefined;
  private sentHeaders: string[] = [];
  private retried = false;
  /** State of the current attempt. */
  private connected = false;
  private connectedMs = 0;
  /** undici makes or finds the connection. */
  private connecting = false;
  private responding = false;
  private abortAttempt: ((error?: Error) => void) | undefined;
  private resumeAttempt: (() => void) | undefined;
  private clientIsSlow = false;
  /** The response has no declared length. */
  private responseIsOpen = false;
  /** Received from the backend, and not paid yet. */
  private heldResponse: Buffer | undefined;
  /** The end of the response, with its trailers, that follows the held bytes. */
  private heldEnd: (Buffer | string)[] | null | undefined;
  private drainAwaited = false;
  /** The app under which it is counted. */
  private countedApp: string | undefined;

  constructor(
    routed: RoutedRequest,
    private readonly response: ClientResponse,
    private readonly expectsContinue: boolean,
  ) {
    super(routed, "exchange failed");
    this.method = routed.request.method ?? "";
    this.body = this.contentLength === 0 ? undefined : new RequestBody(routed.request, this);
  }

  get requestComplete(): boolean {
    return this.routed.request.complete;
  }

  protected override mayRun({ app, dryRun = false }: Verdict): boolean {
    const { shared, options } = this.routed;
    const admitted = shared.apps.enter(app, options.limits.requestsPerApp);
    if (!admitted && dryRun) this.headers = { ...this.headers, [DRY_RUN_HEADER]: dryRunText("app_concurrency") };
    if (admitted) this.countedApp = app;
    return admitted || dryRun;
  }

  protected forward(): void {
    const { head, upstream, connection } = this.routed;
    const target = upstream.pick();
    if (target === undefined) {
      this.fail("no_target");
      return;
    }
    this.sentHeaders = requestHeaders(head, connection, upstream.passHost, this.verdict!.identity);
    this.attempt(target);
  }

  private attempt(target: Target): void {
    this.connected = false;
    this.seek(target);
  }

  /** Its client has delayed the exchange for as long as others may wait, by sending or reading slowly. */
  mayYield(): boolean {
    const { clockMs } = this.routed.shared;
    if (!this.connected || this.ended || clockMs - this.connectedMs < this.routed.options.timeouts.queueMs)
      return false;
    const { body } = this;
    return this.clientIsSlow || (body?.started === true && !body.complete && !body.paused);
  }

  connectionFree(): void {
    const target = this.target!;
    this.connecting = true;
    this.touchedMs = this.routed.shared.clockMs;
    target.pool.dispatch(
      {
        path: this.routed.head.target,
        method: this.method,
        headers: this.sentHeaders,
        // undici's types require a whole stream.
        body: (this.body as unknown as Readable) ?? null,
        // Pipelining is off, so no other request waits behind this one.
        blocking: false,
        // Otherwise undici connects again for every other Host. Not among the types of undici.
        servername: target.tls.serverName,
        ...(this.method === "HEAD" && this.body === undefined ? { reset: false } : undefined),
      } as Dispatcher.DispatchOptions,
      this,
    );
  }

  bodyWanted(): void {
    this.touchedMs = this.routed.shared.clockMs;
    this.body!.measureFrom(this.touchedMs);
    if (this.expectsContinue) this.response.writeContinue();
  }

  bodyMoved(chunk: Buffer): boolean {
    this.touchedMs = this.routed.shared.clockMs;
    const bytes = chunk.length;
    if (this.requestBytes + bytes > this.routed.options.limits.bodyBytes) {
      this.fail("body_too_large");
      return false;
    }
    if (this.contentLength < 0 && !this.mayPass(bytes, "request")) {
      this.body!.hold(chunk);
      return false;
    }
    this.requestBytes += bytes;
    return true;
  }

  get knownBytes(): number {
    return Math.max(this.contentLength, 0);
  }

  get patienceMs(): number {
    return this.routed.options.timeouts.bodyIdleMs;
  }

  /** False: these bytes of unknown length are held back until `paid` or `refused` is called. */
  private mayPass(bytes: number, direction: "request" | "response"): boolean {
    if (this.meter === undefined)
      this.meter = this.routed.options.admission.metering?.start(this.verdict!, this) ?? null;
    return this.meter === null || this.meter.add(bytes, direction);
  }

  paid(): void {
    this.touchedMs = this.routed.shared.clockMs;
    const { body, heldResponse } = this;
    if (body !== undefined && body.heldBytes > 0) {
      this.requestBytes += body.heldBytes;
      body.measureFrom(this.touchedMs);
      body.release();
    }
    if (heldResponse === undefined || this.ended) return;
    this.heldResponse = undefined;
    const clientIsReady = this.passData(heldResponse);
    if (this.heldEnd !== undefined) this.onComplete(this.heldEnd);
    else if (clientIsReady) this.resumeAttempt?.();
  }

  refused(decision: Decision): void {
    this.report(decision.code);
    if (this.response.headersSent) this.abortResponse();
    else this.respond(this.routed.options.admission.metering!.refusal(decision), false);
  }

  onConnect(abort: (error?: Error) => void): void {
    this.connecting = false;
    // The client disconnected before.
    if (this.ended) {
      this.leaveTarget();
      abort();
      return;
    }
    this.abortAttempt = abort;
    this.connected = true;
    this.touchedMs = this.routed.shared.clockMs;
    this.connectedMs = this.touchedMs;
  }

  onResponseStarted(): void {
    this.responding = true;
  }

  onHeaders(status: number, raw: Buffer[], resume: () => void): boolean {
    this.touchedMs = this.routed.shared.clockMs;
    if (status < 200) {
      const link =
        status === 103 && this.routed.request.httpVersionMinor !== 0 ? valuesOf(raw.map(latin1), "link") : [];
      if (link.length > 0) this.response.writeEarlyHints({ link });
      return true;
    }
    const { request, connection, shared, costHeader } = this.routed;
    this.resumeAttempt = resume;
    this.span?.responded(status);
    const close = shared.draining || endsNow(connection);
    const trailers = request.httpVersionMinor !== 0;
    const { headers, contentLength, cost } = responseHead(raw, this.headers, { trailers, close, costHeader });
    this.reportedCost = cost;
    // If the cost is known, bytes are not charged while they pass.
    this.responseIsOpen = contentLength === undefined && cost === INVALID_COST;
    this.response.writeHead(status, headers);
    // Node buffers the head until the first byte of the body, which may take long in an event stream.
    if (contentLength !== "0") process.nextTick(flushHead, this);
    return true;
  }

  flushHead(): void {
    if (!this.ended && this.responseBytes === 0) this.response.flushHeaders();
  }

  onData(chunk: Buffer): boolean {
    this.touchedMs = this.routed.shared.clockMs;
    // The client disconnected; `clientGone` follows.
    if (this.response.destroyed) return false;
    // When it is resumed, the parser begins with an empty chunk.
    if (chunk.length === 0) return true;
    if (this.responseIsOpen && !this.mayPass(chunk.length, "response")) {
      this.heldResponse = chunk;
      return false;
    }
    return this.passData(chunk);
  }

  /** False if the client is slow. */
  private passData(chunk: Buffer): boolean {
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
    this.touchedMs = this.routed.shared.clockMs;
    this.resumeAttempt?.();
  }

  onComplete(trailers: (Buffer | string)[] | null): void {
    const { response } = this;
    const { connection, request, options, upstream } = this.routed;
    this.abortAttempt = undefined;
    if (this.heldResponse !== undefined) {
      this.heldEnd = trailers;
      return;
    }
    if (trailers !== null && trailers.length > 0 && response.chunkedEncoding) {
      response.addTrailers(trailerPairs(trailers, this.routed.costHeader));
    }
    upstream.succeeded(this.target!);
    // The backend responded before it received the whole request: discard the rest.
    const early = this.body !== undefined && !request.complete;
    if (early) closeSlowly(connection, options.timeouts.lingerMs);
    if (!response.destroyed) response.end();
    this.end();
    // The backend may also have responded while the end of the request was held back.
    if (this.body?.complete === false) request.resume();
    if (early || (endsNow(connection) && connection.running.size === 0)) connection.socket.destroySoon();
  }

  onError(error: Failure): void {
    this.connecting = false;
    if (this.ended) {
      this.leaveTarget();
      return;
    }
    const reason = reasonOf(error, this.connected);
    if (reason === "malformed_request" || reason === "overloaded") {
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
    this.leaveTarget();
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
    // A meter limits the time for which it holds bytes back.
    if (this.verdict === undefined || this.meter?.waiting === true) return;
    const { timeouts, limits } = this.routed.options;
    const { clockMs } = this.routed.shared;
    const idle = clockMs - this.touchedMs;
    const { body } = this;
    const sending = body?.started === true && !body.complete;
    if (!this.connected) {
      // undici limits the time to connect; this is for a request that it has lost. The queue has its own timer.
      if (this.connecting && idle > timeouts.connectMs + timeouts.queueMs) this.fail("upstream_connect_timeout");
      return;
    }
    if (sending && body.isBelow(limits.bodyRate, timeouts.bodyRateMs, clockMs)) {
      this.fail("body_timeout");
      return;
    }
    const allowed = sending || this.response.headersSent ? timeouts.bodyIdleMs : timeouts.responseMs;
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
    this.end();
  }

  /** Aborts the response if its head was sent. */
  protected override respondWith(reason: GatewayError): void {
    if (!this.response.headersSent) {
      super.respondWith(reason);
      return;
    }
    this.abortResponse();
  }

  private abortResponse(): void {
    const { connection, request } = this.routed;
    // In HTTP/1.0 the end of the connection would look like the end of the body, a reset does not.
    if (request.httpVersionMinor === 0) connection.socket.resetAndDestroy();
    else connection.socket.destroy();
    this.end();
  }

  /**
   * Responds before the whole request was read, so that a client that is still sending receives the response.
   * `valid`: a small body is read and discarded, so that the connection can be reused.
   */
  protected respond(response: JsonResponse, valid: boolean): void {
    const { connection, request, shared, options } = this.routed;
    const short = this.contentLength >= 0 && this.contentLength <= MAX_DISCARDED && !this.expectsContinue;
    const unread = this.contentLength !== 0 && !request.complete;
    if (unread && !(valid && short)) closeSlowly(connection, options.timeouts.lingerMs);
    this.span?.responded(response.status);
    this.end();
    const close = endsNow(connection) || shared.draining;
    if (close) connection.lastAnswered = true;
    send(this.response, response, close);
    if (unread) request.resume();
  }

  protected stop(): void {
    const { shared, client } = this.routed;
    this.abortAttempt?.();
    // undici keeps a request until it has a connection for it.
    if (!this.connecting) this.leaveTarget();
    this.body?.destroy();
    if (client !== "") shared.clients.leave(client);
    if (this.countedApp !== undefined) shared.apps.leave(this.countedApp);
  }
}

function flushHead(exchange: Exchange): void {
  exchange.flushHead();
}
