/** One request for another protocol: admitted, given a slot, passed to the pod of that slot; then a tunnel, or an answer. */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { type GatewayError, gatewayRefusal } from "../../../core/refusals.js";
import { lingerOnClose } from "../../../shared/linger.js";
import { printable } from "../../../shared/printable.js";
import type { ConnectionVerdict } from "../../../slots/admission.js";
import type { Arrival, Verdict } from "../http/admission.js";
import { rawHead, rawResponse } from "../http/answers.js";
import { fieldsOf, logFailure, type Told } from "../http/exchange-log.js";
import { requestHeaders, responseHead } from "../http/forwarded-heads.js";
import { type RequestHead, valuesOf } from "../http/request-head.js";
import type { ConnectionRules, Settings } from "../settings.js";
import type { Shared } from "../shared.js";
import { type Failure, reasonOf } from "../upstream/failures.js";
import type { Target, Upstream } from "../upstream/upstream.js";
import type { Connection, Running } from "./connections.js";
import { type CallHandler, dial } from "./dial.js";
import { Tunnel } from "./tunnel.js";

/** A request that a route takes. */
export interface WantedUpgrade<V extends Verdict> {
  settings: Settings<V>;
  upstream: Upstream;
  rules: ConnectionRules;
  head: RequestHead;
  /** What the backend is offered. */
  protocols: string[];
}

/** So much of what a client sends before it has an answer is kept for the backend; the rest waits on its way. */
const EARLY_BYTES = 65_536;

type Stage = "deciding" | "connecting" | "asking" | "answering" | "over";

export class Upgrade<V extends Verdict> implements Arrival, Running, CallHandler {
  /**
   * Priced as a method of its own. A connection may move gigabytes: what is learned from it must not be expected of
   * requests.
   */
  readonly method = "UPGRADE";
  readonly remoteAddress: string;
  readonly contentLength = 0;
  readonly requestComplete = true;

  private readonly socket: Socket;
  private stage: Stage = "deciding";
  private touchedMs: number;
  private verdict: V | undefined;
  private headers: Record<string, string> = {};
  private tunnel: Tunnel | undefined;
  private retried = false;
  private answerBytes = 0;
  private readonly early: Buffer[] = [];
  private earlyBytes = 0;

  constructor(
    private readonly shared: Shared,
    private readonly tunnels: Set<Tunnel>,
    private readonly connection: Connection,
    private readonly request: IncomingMessage,
    private readonly wanted: WantedUpgrade<V>,
    private readonly handOver: (socket: Socket) => void,
  ) {
    this.remoteAddress = connection.remoteAddress;
    this.socket = connection.socket;
    this.touchedMs = shared.clockMs;
    connection.running.add(this);
    // Nothing else may come on it as a request.
    connection.closing = true;
    wanted.upstream.hold();
  }

  headerValues(name: string): string[] {
    return valuesOf(this.request.rawHeaders, name);
  }

  /** `head` came together with the request. */
  async start(head: Buffer): Promise<void> {
    if (head.length > 0) this.keep(head);
    // Who does not read does not hear that the client has left.
    this.socket.on("data", this.keep).on("end", this.leave);
    if (this.shared.draining) {
      this.fail("draining");
      return;
    }
    const { admission } = this.wanted.settings;
    try {
      const verdict = await admission.admit(this);
      if (this.stage === "over") {
        if (verdict.allowed) admission.settle(verdict, 0, 0);
      } else if (!verdict.allowed) this.refuse(verdict.status, verdict.body, verdict.headers);
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

  /** Takes a slot on one of the pods that are well. `failed` was tried before; then `reason` is what the client gets if there is no other. */
  private async place(failed?: { target: Target; reason: GatewayError }): Promise<void> {
    const { upstream, rules, settings } = this.wanted;
    const upgrades = settings.upgrades!;
    const targets = upstream.candidates(failed?.target);
    if (targets.length === 0) {
      this.fail(failed?.reason ?? "no_target");
      return;
    }
    const pods = [...new Set(targets.map(({ pod }) => pod))];
    const app = upgrades.appOf(this.verdict!);
    const placed = await upgrades.admission.admit({ app, route: rules.route, pods });
    if (this.stage === "over" || this.socket.destroyed) {
      if (placed.allowed) placed.slot.release();
    } else if (placed.allowed) this.call(placed, targets);
    else if (failed !== undefined) this.fail(failed.reason);
    else this.refuse(placed.status, placed.body, { ...this.headers, ...placed.headers });
  }

  private call({ pod, slot, headers }: ConnectionVerdict & { allowed: true }, targets: Target[]): void {
    const { wanted, shared, connection, request } = this;
    const { upstream, rules, head, protocols, settings } = wanted;
    const target = targets.find((candidate) => candidate.pod === pod);
    if (target === undefined) {
      slot.release();
      throw new Error(`the slot is on ${printable(pod)}, which was not offered`);
    }
    this.headers = { ...this.verdict!.headers, ...headers };
    this.tunnel = new Tunnel(shared, this.tunnels, rules, target, slot);
    this.stage = "connecting";
    this.touchedMs = shared.clockMs;
    const passed = requestHeaders({ ...head, headers: [...head.headers] }, connection, shared.via, upstream.passHost);
    if (!upstream.passHost || head.host === "") passed.push("host", new URL(target.origin).host);
    passed.push("connection", "Upgrade", "upgrade", protocols.join(", "));
    const method = request.method ?? "GET";
    // Without a word on it, some methods would be sent with an empty body.
    if (method !== "GET" && valuesOf(passed, "content-length").length === 0) passed.push("content-length", "0");
    const { headerBytes } = settings.limits;
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
      this.attemptFailed(new Error(`switched to ${printable(protocol)}, which was not offered`));
      return;
    }
    wanted.upstream.succeeded(tunnel!.target);
    if (tunnel!.lost) {
      backend.on("error", ignore).destroy();
      this.fail("slot_lost");
      return;
    }
    const { headers } = responseHead(rawList(response), this.headers, shared.via, false, false);
    headers.push("Connection", "Upgrade", "Upgrade", response.headers.upgrade!);
    socket.write(rawHead(101, headers), "latin1");
    const { verdict, early } = this;
    const { admission } = wanted.settings;
    this.tunnel = undefined;
    this.verdict = undefined;
    this.end();
    this.handOver(socket);
    // Not more than what is settled is kept for as long as it lasts.
    tunnel!.open(socket, backend, protocol === "websocket", settleWith(admission, verdict!));
    if (head.length > 0) tunnel!.passOn(backend, head);
    for (const chunk of early) tunnel!.passOn(socket, chunk);
    socket.resume();
    backend.resume();
    if (shared.draining) tunnel!.goAway();
  }

  refused(response: IncomingMessage): void {
    const { socket, shared, wanted, tunnel } = this;
    // It has nothing to count.
    tunnel!.release();
    wanted.upstream.succeeded(tunnel!.target);
    this.stage = "answering";
    this.touchedMs = shared.clockMs;
    const { headers } = responseHead(rawList(response), this.headers, shared.via, false, true);
    lingerOnClose(socket, wanted.settings.timeouts.lingerMs);
    socket.write(rawHead(response.statusCode!, headers), "latin1");
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
      // An answer without a length would look complete.
      if (response.complete) socket.destroySoon();
      else socket.resetAndDestroy();
    });
  }

  failed(error: Failure): void {
    this.attemptFailed(error);
  }

  /** The slot goes back in any case. Another pod is asked once, with a slot of its own. */
  private attemptFailed(error: Failure): void {
    if (this.stage === "over") return;
    const { target } = this.tunnel!;
    const reason = reasonOf(error, this.stage !== "connecting");
    this.wanted.upstream.failed(target);
    this.report(reason, error);
    this.tunnel!.abandon();
    this.tunnel = undefined;
    if (this.retried || this.stage !== "connecting") {
      this.answer(reason);
      return;
    }
    this.retried = true;
    this.stage = "deciding";
    this.place({ target, reason }).catch((cause) => this.fail("internal_error", cause));
  }

  /** Called by the sweep. */
  checkTime(): void {
    const { connectMs, responseMs, bodyIdleMs } = this.wanted.settings.timeouts;
    const quietMs = this.shared.clockMs - this.touchedMs;
    if (this.stage === "connecting" && quietMs > connectMs) {
      this.attemptFailed(Object.assign(new Error("no connection in time"), { code: "UND_ERR_CONNECT_TIMEOUT" }));
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
    this.shared.log.info(fieldsOf(this.told()), "client left");
    this.end();
  }

  fail(reason: GatewayError, cause?: unknown): void {
    if (this.stage === "over") return;
    this.report(reason, cause);
    this.answer(reason);
  }

  private answer(reason: GatewayError): void {
    const { status, body } = gatewayRefusal(reason);
    this.refuse(status, body, this.headers);
  }

  private refuse(status: number, body: string, headers: Record<string, string>): void {
    const { socket, wanted } = this;
    this.end();
    lingerOnClose(socket, wanted.settings.timeouts.lingerMs);
    socket.write(rawResponse(status, body, headers));
    socket.destroySoon();
  }

  /** HTTP has nothing more to do with it. */
  private end(): void {
    if (this.stage === "over") return;
    this.stage = "over";
    const { connection, socket, verdict } = this;
    connection.running.delete(this);
    connection.readBytes = socket.bytesRead;
    socket.off("data", this.keep).off("end", this.leave);
    socket.resume();
    this.tunnel?.abandon();
    this.wanted.upstream.release();
    if (verdict !== undefined) this.wanted.settings.admission.settle(verdict, 0, this.answerBytes);
  }

  private report(reason: GatewayError, cause?: unknown): void {
    logFailure(this.shared.log, "upgrade failed", this.told(), { reason, cause });
  }

  private told(): Told {
    const { wanted, tunnel, method, remoteAddress } = this;
    const { head, upstream } = wanted;
    return { method, path: head.path, upstream, target: tunnel?.target, client: remoteAddress };
  }
}

/** All bytes count as the client's: those would be expected of the next request only if its own length were unknown. */
function settleWith<V extends Verdict>(admission: Settings<V>["admission"], verdict: V) {
  return (requestBytes: number, responseBytes: number) => admission.settle(verdict, requestBytes + responseBytes, 0);
}

function rawList({ rawHeaders }: IncomingMessage): Buffer[] {
  return rawHeaders.map((text) => Buffer.from(text, "latin1"));
}

function ignore(): void {}
