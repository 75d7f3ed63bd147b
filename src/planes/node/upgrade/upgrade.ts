/** One upgrade: admitted, given a slot, and sent to the pod of the slot. It becomes a tunnel or ends with a response. */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { GatewayError } from "../../../core/refusals.js";
import { UPGRADE } from "../../../engine/settle.js";
import { lingerOnClose } from "../../../shared/linger.js";
import { printable } from "../../../shared/printable.js";
import type { ConnectionVerdict } from "../../../slots/connection-admission.js";
import { ignore } from "../http/client-connections.js";
import { requestHeaders, responseHead } from "../http/forwarded-heads.js";
import { valuesOf } from "../http/request-head.js";
import { type JsonResponse, rawHead, sendAndClose } from "../http/responses.js";
import { type RoutedRequest, RunningRequest } from "../http/running-request.js";
import { type Failure, reasonOf } from "../upstream/failures.js";
import type { Target } from "../upstream/upstream.js";
import { type CallHandler, dial } from "./dial.js";
import { Tunnel, type TunnelProxy } from "./tunnel.js";
import { clientOf } from "./upgrade-request.js";

/** Bytes that are buffered for the backend if the client sends before it has a response; then its socket is paused. */
const EARLY_BYTES = 65_536;

type Stage = "deciding" | "connecting" | "asking" | "answering";

export class Upgrade extends RunningRequest implements CallHandler {
  readonly method = UPGRADE;
  readonly requestComplete = true;

  private stage: Stage = "deciding";
  private tunnel: Tunnel | undefined;
  private retried = false;
  private readonly early: Buffer[] = [];
  private earlyBytes = 0;

  /** `detach` separates the socket from HTTP. */
  constructor(
    routed: RoutedRequest,
    private readonly socket: Socket,
    private readonly proxy: TunnelProxy,
    private readonly detach: (socket: Socket) => void,
  ) {
    super(routed, "upgrade failed");
    // No further request may follow on this connection.
    routed.connection.closing = true;
  }

  protected get target(): Target | undefined {
    return this.tunnel?.target;
  }

  /** `head` was received with the request. */
  begin(head: Buffer): void {
    if (head.length > 0) this.keep(head);
    // The socket must be read to notice that the client disconnects.
    this.socket.on("data", this.keep).on("end", this.leave);
    try {
      if (this.proxy.shared.draining) this.fail("draining");
      else this.start();
    } catch (error) {
      this.fail("internal_error", error);
    }
  }

  protected forward(failed?: { target: Target; reason: GatewayError }): void {
    this.place(failed).catch((error) => this.fail("internal_error", error));
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
    const { connection, upstream, upgrade, options } = this.routed;
    const targets = upstream.candidates(failed?.target);
    if (targets.length === 0) {
      this.fail(failed?.reason ?? "no_target");
      return;
    }
    const pods = [...new Set(targets.map(({ pod }) => pod))];
    const { app, dryRun } = this.verdict!;
    const client = clientOf(connection, this.forwardedFor, options.isTrusted);
    const placed = await options.upgrades!.admit({ app, client, route: upgrade!.rules.route, pods, dryRun });
    if (this.ended || this.socket.destroyed) {
      if (placed.allowed) placed.slot.release();
    } else if (placed.allowed) this.call(placed, targets);
    else if (failed !== undefined) this.fail(failed.reason);
    else this.respond({ ...placed, headers: { ...this.headers, ...placed.headers } });
  }

  private call({ pod, slot, headers }: ConnectionVerdict & { allowed: true }, targets: Target[]): void {
    const { shared, connection, request, upstream, head, options } = this.routed;
    const { rules, protocols } = this.routed.upgrade!;
    const target = targets.find((candidate) => candidate.pod === pod);
    if (target === undefined) {
      slot.release();
      throw new Error(`the slot is on ${printable(pod)}, which is not a candidate`);
    }
    this.headers = { ...this.verdict!.headers, ...headers };
    this.tunnel = new Tunnel(target, slot, rules, this.proxy);
    this.stage = "connecting";
    this.touchedMs = shared.clockMs;
    const { identity } = this.verdict!;
    const own = { ...head, headers: [...head.headers] };
    const passed = requestHeaders(own, connection, upstream.passHost, identity);
    if (!upstream.passHost || head.host === "") passed.push("host", new URL(target.origin).host);
    passed.push("connection", "Upgrade", "upgrade", protocols.join(", "));
    const method = request.method ?? "GET";
    // Otherwise Node would send some methods with a chunked empty body.
    if (method !== "GET" && valuesOf(passed, "content-length").length === 0) passed.push("content-length", "0");
    const { headerBytes } = options.limits;
    this.tunnel.calling(dial({ target, method, path: head.target, headers: passed, headerBytes }, this));
  }

  connected(): void {
    this.stage = "asking";
    this.touchedMs = this.proxy.shared.clockMs;
  }

  switched(response: IncomingMessage, backend: Socket, head: Buffer): void {
    const { tunnel, socket, routed, verdict, early } = this;
    const protocol = response.headers.upgrade?.toLowerCase() ?? "";
    if (!routed.upgrade!.protocols.some((offered) => offered.toLowerCase() === protocol)) {
      backend.on("error", ignore).destroy();
      this.failed(new Error(`switched to ${printable(protocol)}, which was not offered`));
      return;
    }
    routed.upstream.succeeded(tunnel!.target);
    if (tunnel!.lost) {
      backend.on("error", ignore).destroy();
      this.fail("slot_lost");
      return;
    }
    const headers = this.headOf(response, false);
    headers.push("Connection", "Upgrade", "Upgrade", response.headers.upgrade!);
    socket.write(rawHead(101, headers), "latin1");
    this.tunnel = undefined;
    this.verdict = undefined;
    this.end();
    this.detach(socket);
    // The tunnel keeps the verdict and nothing else of this request.
    const { admission } = routed.options;
    tunnel!.open(socket, backend, protocol === "websocket", { admission, verdict: verdict! });
    if (head.length > 0) tunnel!.passOn(backend, head);
    if (early.length > 0) tunnel!.passOn(socket, Buffer.concat(early));
    tunnel!.start();
    if (routed.shared.draining) tunnel!.goAway();
  }

  refused(response: IncomingMessage): void {
    const { socket, tunnel } = this;
    const { shared, upstream, options } = this.routed;
    // The connection was not upgraded.
    tunnel!.release();
    upstream.succeeded(tunnel!.target);
    this.stage = "answering";
    this.touchedMs = shared.clockMs;
    lingerOnClose(socket, options.timeouts.lingerMs);
    socket.write(rawHead(response.statusCode!, this.headOf(response, true)), "latin1");
    const more = () => void response.resume();
    socket.on("drain", more);
    response.on("data", (chunk: Buffer) => {
      this.touchedMs = shared.clockMs;
      this.responseBytes += chunk.length;
      if (!socket.write(chunk)) response.pause();
    });
    response.on("error", ignore);
    response.once("close", () => {
      socket.off("drain", more);
      if (this.ended) return;
      this.end();
      // Without a length the response would look complete.
      if (response.complete) socket.destroySoon();
      else socket.resetAndDestroy();
    });
  }

  private headOf({ rawHeaders }: IncomingMessage, close: boolean): string[] {
    const { costHeader } = this.routed;
    const { headers, cost } = responseHead(rawHeaders, this.headers, { trailers: false, close, costHeader });
    // Of a response that refuses the upgrade. A connection pays for its bytes.
    if (close) this.reportedCost = cost;
    return headers;
  }

  /** Releases the slot. One retry is made on another pod, with its own slot. */
  failed(error: Failure): void {
    if (this.ended) return;
    const { target } = this.tunnel!;
    const reason = reasonOf(error, this.stage !== "connecting");
    if (reason !== "overloaded") this.routed.upstream.failed(target);
    this.report(reason, error);
    this.tunnel!.abandon();
    this.tunnel = undefined;
    if (this.retried || this.stage !== "connecting") {
      this.respondWith(reason);
      return;
    }
    this.retried = true;
    this.stage = "deciding";
    this.forward({ target, reason });
  }

  /** Called by the proxy's timer. */
  checkTime(): void {
    const { connectMs, responseMs, bodyIdleMs } = this.routed.options.timeouts;
    const quietMs = this.proxy.shared.clockMs - this.touchedMs;
    if (this.stage === "connecting" && quietMs > connectMs) {
      this.failed(Object.assign(new Error("connect timeout"), { code: "UND_ERR_CONNECT_TIMEOUT" }));
    } else if (this.stage === "asking" && quietMs > responseMs) {
      this.routed.upstream.failed(this.tunnel!.target);
      this.fail("upstream_timeout");
    } else if (this.stage === "answering" && quietMs > bodyIdleMs) {
      this.end();
      this.socket.resetAndDestroy();
    }
  }

  clientGone(): void {
    if (this.ended) return;
    this.proxy.shared.log.info(this.logFields(), "client disconnected");
    this.end();
  }

  protected respond(response: JsonResponse): void {
    this.span?.responded(response.status);
    this.end();
    sendAndClose(this.socket, response, this.routed.options.timeouts.lingerMs);
  }

  protected stop(): void {
    this.socket.off("data", this.keep).off("end", this.leave).resume();
    this.tunnel?.abandon();
  }
}
