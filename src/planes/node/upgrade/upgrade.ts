/** One upgrade: admitted, given a slot, and sent to the pod of the slot. It becomes a tunnel or ends with a response. */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { type GatewayError, gatewayRefusal } from "../../../core/refusals.js";
import { lingerOnClose } from "../../../shared/linger.js";
import { printable } from "../../../shared/printable.js";
import type { ConnectionVerdict } from "../../../slots/admission.js";
import type { Admission, Arrival, Verdict } from "../http/admission.js";
import { requestHeaders, responseHead } from "../http/forwarded-heads.js";
import { type RequestHead, valuesOf } from "../http/request-head.js";
import { rawHead, rawResponse } from "../http/responses.js";
import type { ConnectionRules, OptionsInForce, Shared } from "../options.js";
import { causeOf, type Failure, reasonOf } from "../upstream/failures.js";
import type { Target, Upstream } from "../upstream/upstream.js";
import type { Connection, Running } from "./connections.js";
import { type CallHandler, dial } from "./dial.js";
import { Tunnel, type TunnelProxy } from "./tunnel.js";

/** An upgrade that its route accepts. */
export interface WantedUpgrade {
  options: OptionsInForce;
  upstream: Upstream;
  rules: ConnectionRules;
  head: RequestHead;
  /** Protocols to offer to the backend. */
  protocols: string[];
}

export interface UpgradeParts {
  proxy: TunnelProxy;
  connection: Connection;
  request: IncomingMessage;
  wanted: WantedUpgrade;
  /** Detaches the socket from HTTP. */
  release(socket: Socket): void;
}

/** Bytes that are buffered for the backend if the client sends before it has a response; then its socket is paused. */
const EARLY_BYTES = 65_536;

type Stage = "deciding" | "connecting" | "asking" | "answering" | "over";

export class Upgrade implements Arrival, Running, CallHandler {
  /**
   * A method of its own, because sizes learned from connections, which may transfer gigabytes, must not be expected of
   * requests.
   */
  readonly method = "UPGRADE";
  readonly remoteAddress: string;
  readonly contentLength = 0;
  readonly requestComplete = true;

  private readonly socket: Socket;
  private stage: Stage = "deciding";
  private touchedMs: number;
  private verdict: Verdict | undefined;
  private headers: Record<string, string> = {};
  private tunnel: Tunnel | undefined;
  private retried = false;
  private answerBytes = 0;
  private readonly early: Buffer[] = [];
  private earlyBytes = 0;
  private readonly shared: Shared;
  private readonly wanted: WantedUpgrade;

  constructor(private readonly parts: UpgradeParts) {
    const { proxy, connection, wanted } = parts;
    this.shared = proxy.shared;
    this.wanted = wanted;
    this.remoteAddress = connection.remoteAddress;
    this.socket = connection.socket;
    this.touchedMs = this.shared.clockMs;
    connection.running.add(this);
    // No further request may follow on this connection.
    connection.closing = true;
    wanted.upstream.hold();
  }

  headerValues(name: string): string[] {
    return valuesOf(this.parts.request.rawHeaders, name);
  }

  /** `head` was received with the request. */
  async start(head: Buffer): Promise<void> {
    if (head.length > 0) this.keep(head);
    // The socket must be read to notice that the client disconnects.
    this.socket.on("data", this.keep).on("end", this.leave);
    if (this.shared.draining) {
      this.fail("draining");
      return;
    }
    const { admission } = this.wanted.options;
    try {
      const verdict = await admission.admit(this);
      if (this.stage === "over") {
        if (verdict.allowed) admission.settle(verdict, 0, 0);
      } else if (!verdict.allowed) this.respond(verdict.status, verdict.body, verdict.headers);
      else {
        this.verdict = verdict;
        this.headers = verdict.headers;
        await this.place();
      }
    } catch (error) {
      this.fail("internal_error", error);
    }
  }

  private readonly keep = (chunk: Buffer): void => {
    this.early.push(chunk);
    this.earlyBytes += chunk.length;
    if (this.earlyBytes >= EARLY_BYTES) this.socket.pause();
  };

  private readonly leave = (): void => {
    this.clientGone();
    this.socket.destroy();
  };

  /** Takes a slot on a healthy pod. On a retry `failed` is skipped, and its error is sent if there is no other pod. */
  private async place(failed?: { target: Target; reason: GatewayError }): Promise<void> {
    const { upstream, rules, options } = this.wanted;
    const targets = upstream.candidates(failed?.target);
    if (targets.length === 0) {
      this.fail(failed?.reason ?? "no_target");
      return;
    }
    const pods = [...new Set(targets.map(({ pod }) => pod))];
    const { app } = this.verdict!;
    const placed = await options.upgrades!.admit({ app, route: rules.route, pods });
    if (this.stage === "over" || this.socket.destroyed) {
      if (placed.allowed) placed.slot.release();
    } else if (placed.allowed) this.call(placed, targets);
    else if (failed !== undefined) this.fail(failed.reason);
    else this.respond(placed.status, placed.body, { ...this.headers, ...placed.headers });
  }

  private call({ pod, slot, headers }: ConnectionVerdict & { allowed: true }, targets: Target[]): void {
    const { shared } = this;
    const { connection, request, wanted } = this.parts;
    const { upstream, rules, head, protocols, options } = wanted;
    const target = targets.find((candidate) => candidate.pod === pod);
    if (target === undefined) {
      slot.release();
      throw new Error(`the slot is on ${printable(pod)}, which is not a candidate`);
    }
    this.headers = { ...this.verdict!.headers, ...headers };
    this.tunnel = new Tunnel(target, slot, rules, this.parts.proxy);
    this.stage = "connecting";
    this.touchedMs = shared.clockMs;
    const passed = requestHeaders({ ...head, headers: [...head.headers] }, connection, shared.via, upstream.passHost);
    if (!upstream.passHost || head.host === "") passed.push("host", new URL(target.origin).host);
    passed.push("connection", "Upgrade", "upgrade", protocols.join(", "));
    const method = request.method ?? "GET";
    // Otherwise Node would send some methods with a chunked empty body.
    if (method !== "GET" && valuesOf(passed, "content-length").length === 0) passed.push("content-length", "0");
    const { headerBytes } = options.limits;
    this.tunnel.calling(dial({ origin: target.origin, method, path: head.target, headers: passed, headerBytes }, this));
  }

  connected(): void {
    this.stage = "asking";
    this.touchedMs = this.shared.clockMs;
  }

  switched(response: IncomingMessage, backend: Socket, head: Buffer): void {
    const { tunnel, socket, shared, wanted } = this;
    const protocol = response.headers.upgrade?.toLowerCase() ?? "";
    if (!wanted.protocols.some((offered) => offered.toLowerCase() === protocol)) {
      backend.on("error", ignore).destroy();
      this.failed(new Error(`switched to ${printable(protocol)}, which was not offered`));
      return;
    }
    wanted.upstream.succeeded(tunnel!.target);
    if (tunnel!.lost) {
      backend.on("error", ignore).destroy();
      this.fail("slot_lost");
      return;
    }
    const headers = this.headOf(response, false);
    headers.push("Connection", "Upgrade", "Upgrade", response.headers.upgrade!);
    socket.write(rawHead(101, headers), "latin1");
    const { verdict, early } = this;
    const { admission } = wanted.options;
    this.tunnel = undefined;
    this.verdict = undefined;
    this.end();
    this.parts.release(socket);
    // The tunnel keeps the verdict and nothing else of this request.
    tunnel!.open(socket, backend, protocol === "websocket", settleWith(admission, verdict!));
    if (head.length > 0) tunnel!.passOn(backend, head);
    for (const chunk of early) tunnel!.passOn(socket, chunk);
    socket.resume();
    backend.resume();
    if (shared.draining) tunnel!.goAway();
  }

  refused(response: IncomingMessage): void {
    const { socket, shared, wanted, tunnel } = this;
    // The connection was not upgraded.
    tunnel!.release();
    wanted.upstream.succeeded(tunnel!.target);
    this.stage = "answering";
    this.touchedMs = shared.clockMs;
    lingerOnClose(socket, wanted.options.timeouts.lingerMs);
    socket.write(rawHead(response.statusCode!, this.headOf(response, true)), "latin1");
    const more = () => void response.resume();
    socket.on("drain", more);
    response.on("data", (chunk: Buffer) => {
      this.touchedMs = shared.clockMs;
      this.answerBytes += chunk.length;
      if (!socket.write(chunk)) response.pause();
    });
    response.on("error", ignore);
    response.once("close", () => {
      socket.off("drain", more);
      if (this.stage === "over") return;
      this.end();
      // Without a length the response would look complete.
      if (response.complete) socket.destroySoon();
      else socket.resetAndDestroy();
    });
  }

  private headOf({ rawHeaders }: IncomingMessage, close: boolean): string[] {
    const raw = rawHeaders.map((text) => Buffer.from(text, "latin1"));
    return responseHead(raw, this.headers, { via: this.shared.via, trailers: false, close }).headers;
  }

  /** Releases the slot. One retry is made on another pod, with its own slot. */
  failed(error: Failure): void {
    if (this.stage === "over") return;
    const { target } = this.tunnel!;
    const reason = reasonOf(error, this.stage !== "connecting");
    this.wanted.upstream.failed(target);
    this.report(reason, error);
    this.tunnel!.abandon();
    this.tunnel = undefined;
    if (this.retried || this.stage !== "connecting") {
      this.respondWith(reason);
      return;
    }
    this.retried = true;
    this.stage = "deciding";
    this.place({ target, reason }).catch((cause) => this.fail("internal_error", cause));
  }

  /** Called by the proxy's timer. */
  checkTime(): void {
    const { connectMs, responseMs, bodyIdleMs } = this.wanted.options.timeouts;
    const quietMs = this.shared.clockMs - this.touchedMs;
    if (this.stage === "connecting" && quietMs > connectMs) {
      this.failed(Object.assign(new Error("connect timeout"), { code: "UND_ERR_CONNECT_TIMEOUT" }));
    } else if (this.stage === "asking" && quietMs > responseMs) {
      this.wanted.upstream.failed(this.tunnel!.target);
      this.fail("upstream_timeout");
    } else if (this.stage === "answering" && quietMs > bodyIdleMs) {
      this.end();
      this.socket.resetAndDestroy();
    }
  }

  clientGone(): void {
    if (this.stage === "over") return;
    this.shared.log.info(this.logFields(), "client disconnected");
    this.end();
  }

  fail(reason: GatewayError, cause?: unknown): void {
    if (this.stage === "over") return;
    this.report(reason, cause);
    this.respondWith(reason);
  }

  private respondWith(reason: GatewayError): void {
    const { status, body } = gatewayRefusal(reason);
    this.respond(status, body, this.headers);
  }

  private respond(status: number, body: string, headers: Record<string, string>): void {
    const { socket, wanted } = this;
    this.end();
    lingerOnClose(socket, wanted.options.timeouts.lingerMs);
    socket.write(rawResponse({ status, body, headers }));
    socket.destroySoon();
  }

  private end(): void {
    if (this.stage === "over") return;
    this.stage = "over";
    const { socket, verdict } = this;
    const { connection } = this.parts;
    connection.running.delete(this);
    connection.readBytes = socket.bytesRead;
    socket.off("data", this.keep).off("end", this.leave);
    socket.resume();
    this.tunnel?.abandon();
    this.wanted.upstream.release();
    if (verdict !== undefined) this.wanted.options.admission.settle(verdict, 0, this.answerBytes);
  }

  private report(reason: GatewayError, cause?: unknown): void {
    const fields = { reason, ...this.logFields(), ...(cause !== undefined && { cause: causeOf(cause) }) };
    this.shared.log.warn(fields, "upgrade failed");
  }

  private logFields() {
    const { method, tunnel, remoteAddress: client } = this;
    const { head, upstream } = this.wanted;
    return { method, path: printable(head.path), upstream: upstream.name, target: tunnel?.target.origin, client };
  }
}

/** Counted as request bytes, because response bytes would be learned as the expected size of responses. */
function settleWith(admission: Admission, verdict: Verdict) {
  return (requestBytes: number, responseBytes: number) => admission.settle(verdict, requestBytes + responseBytes, 0);
}

function ignore(): void {}
