/** An upgraded connection: passes bytes in both directions, and releases its slot when the backend has closed it. */
import type { Socket } from "node:net";
import { STORE_UNAVAILABLE } from "../../../core/codes.js";
import type { Decision, Transfer } from "../../../limiter/limiter.js";
import type { SlotHold } from "../../../slots/connection-admission.js";
import { ignore } from "../http/client-connections.js";
import type { Admission, TransferMeter, Verdict } from "../http/request-admission.js";
import type { ConnectionRules, Shared } from "../options.js";
import type { Target } from "../upstream/upstream.js";
import type { HangUp } from "./dial.js";
import { closeFrame, FrameTracker, GOING_AWAY, POLICY_VIOLATION, TRY_AGAIN_LATER } from "./frames.js";
import { ClientPings } from "./pings.js";
import { endOnce, Way } from "./way.js";

/** Unsent bytes above which the sender is paused. */
const ENOUGH_UNSENT = 65_536;
/** Keep-alive interval for pods that were removed from the configuration. */
const DEPARTED_PING_MS = 1_000;

/** What all tunnels of a proxy share. */
export interface TunnelProxy {
  readonly shared: Shared;
  readonly tunnels: Set<Tunnel>;
}

/** Who pays for the bytes of a tunnel. */
export interface TunnelPayer {
  admission: Admission;
  verdict: Verdict;
}

/**
 * Exists from taking the slot to releasing it. There may be ten thousand, most of them idle: they have no timers, hardly
 * any closures, and keep nothing of the request.
 */
export class Tunnel implements Transfer {
  private held: SlotHold | undefined;
  /** Set until the backend has responded. */
  private hangUp: HangUp | undefined;
  private up: Way | undefined;
  private down: Way | undefined;
  private admission: Admission | undefined;
  private verdict: Verdict | undefined;
  /** Undefined before the first byte; null if the app is charged at the end only. */
  private meter: TransferMeter | null | undefined;
  private openSockets = 0;
  private touchedMs = 0;
  private pings: ClientPings | undefined;
  /** Code of the close frame to send to both peers as soon as possible; 0: none. */
  private closeCode = 0;
  /** When closing began; -1: the tunnel is not closing. */
  private endingSinceMs = -1;
  /** The slot was lost. */
  lost = false;

  constructor(
    readonly target: Target,
    slot: SlotHold,
    private readonly rules: ConnectionRules,
    private readonly proxy: TunnelProxy,
  ) {
    this.held = slot;
    proxy.tunnels.add(this);
    slot.onLost(() => this.loseSlot());
  }

  get isOpen(): boolean {
    return this.openSockets > 0;
  }

  calling(hangUp: HangUp): void {
    this.hangUp = hangUp;
  }

  /** Repeated calls do nothing. */
  release(): void {
    const { held } = this;
    this.held = undefined;
    held?.release();
  }

  /** The upgrade failed. The slot is released when the backend, if it was called, has closed the connection. */
  abandon(): void {
    if (this.hangUp === undefined) this.over();
    else this.hangUp(this.rules.lingerMs, () => this.over());
  }

  /** Takes over both sockets. Bytes received before are passed to `passOn` afterwards, then `start` is called. */
  open(client: Socket, backend: Socket, isWebSocket: boolean, { admission, verdict }: TunnelPayer): void {
    this.hangUp = undefined;
    this.up = new Way(client, backend, isWebSocket ? new FrameTracker() : undefined);
    this.down = new Way(backend, client, isWebSocket ? new FrameTracker() : undefined);
    this.admission = admission;
    this.verdict = verdict;
    this.touchedMs = this.proxy.shared.clockMs;
    this.pings = new ClientPings(this.touchedMs);
    this.openSockets = 2;
    this.attach(client);
    this.attach(backend);
  }

  private attach(socket: Side): void {
    const { pingMs } = this.rules;
    socket[tunnelOf] = this;
    socket.setTimeout(0);
    if (pingMs > 0) socket.setKeepAlive(true, pingMs);
    socket.on("data", onData).on("drain", onDrain).on("end", onEnd).on("error", ignore).once("close", onClose);
    // Already closed: there is no further event.
    if (socket.closed) this.sideClosed(socket, false);
  }

  start(): void {
    for (const way of [this.up!, this.down!]) if (way.held === undefined) way.from.resume();
  }

  /** At most one chunk of each side before `start`. */
  passOn(from: Socket, chunk: Buffer): void {
    const way = this.wayFrom(from);
    const { clockMs } = this.proxy.shared;
    if (way === this.up && this.pings!.heard(chunk, way, clockMs)) return;
    this.touchedMs = clockMs;
    if (way.closed || !way.to.writable) return;
    if (this.meter === undefined) this.meter = this.admission!.metering?.start(this.verdict!, this) ?? null;
    if (this.meter === null || this.meter.add(chunk.length, way === this.up ? "request" : "response")) {
      this.send(way, chunk);
      return;
    }
    way.hold(chunk);
  }

  get knownBytes(): number {
    return 0;
  }

  get patienceMs(): number {
    return this.rules.stalledMs;
  }

  paid(): void {
    this.touchedMs = this.proxy.shared.clockMs;
    for (const way of [this.up!, this.down!]) {
      const { held } = way;
      if (held === undefined) continue;
      way.held = undefined;
      if (!way.closed && way.to.writable) this.send(way, held);
      if (way.endHeld) this.sideEnded(way.from);
      else if (way.to.writableLength < ENOUGH_UNSENT) way.from.resume();
    }
  }

  refused({ app, code }: Decision): void {
    const fields = { target: this.target.origin, app, reason: code };
    this.proxy.shared.log.warn(fields, "connection closed: no tokens for its bytes");
    this.close(code === STORE_UNAVAILABLE ? TRY_AGAIN_LATER : POLICY_VIOLATION, false);
  }

  private send(way: Way, chunk: Buffer): void {
    way.bytes += chunk.length;
    const whole = way.frames === undefined ? -1 : way.frames.pass(chunk);
    if (this.closeCode === 0 || whole < 0) {
      way.to.write(chunk);
      if (way.to.writableLength >= ENOUGH_UNSENT) way.from.pause();
      return;
    }
    // The frame that was in progress when closing began is complete.
    way.to.write(chunk.subarray(0, whole));
    this.sendClose(way);
  }

  drained(socket: Socket): void {
    this.touchedMs = this.proxy.shared.clockMs;
    const sender = this.otherThan(socket);
    if (this.wayFrom(sender).held === undefined) sender.resume();
  }

  /** One peer has closed its direction. The other may continue, except with WebSocket. */
  sideEnded(socket: Socket): void {
    const way = this.wayFrom(socket);
    if (way.held !== undefined) {
      way.endHeld = true;
      return;
    }
    endOnce(this.otherThan(socket));
    if (this.up!.frames === undefined) return;
    // Close a backend that ended the WebSocket at once, so that the slot is released early.
    if (socket === this.up!.to) endOnce(socket);
    this.beginEnding();
  }

  sideClosed(socket: Socket, broken: boolean): void {
    const ofBackend = socket === this.up!.to;
    if (ofBackend) this.release();
    if (--this.openSockets === 0) {
      this.meter?.close();
      if (this.verdict !== undefined) {
        this.admission!.settle(this.verdict, this.up!.bytes, this.down!.bytes, { metered: this.meter?.taken });
      }
      this.over();
      return;
    }
    this.beginEnding();
    const other = this.otherThan(socket);
    // A reset must not look like the regular end of the stream.
    if (broken && this.up!.frames === undefined) other.resetAndDestroy();
    else {
      // Its further bytes are dropped, but it is read to notice its end.
      (ofBackend ? this.up! : this.down!).drop();
      endOnce(other);
      other.resume();
    }
  }

  private over(): void {
    this.release();
    this.verdict = undefined;
    this.proxy.tunnels.delete(this);
  }

  private loseSlot(): void {
    if (this.lost) return;
    this.lost = true;
    if (this.openSockets === 0) return;
    this.proxy.shared.log.warn({ target: this.target.origin }, "connection closed: it lost its slot");
    this.close(TRY_AGAIN_LATER, false);
  }

  /** The gateway drains. Only WebSockets have a close frame; other protocols are cut after the grace period. */
  goAway(): void {
    if (this.up?.frames !== undefined) this.close(GOING_AWAY, true);
  }

  /** The pod was removed from the configuration: detect soon whether it is still alive. */
  podDeparted(): void {
    this.up?.to.setKeepAlive(true, DEPARTED_PING_MS);
  }

  /** `patient`: waits for the end of a frame in progress. */
  private close(code: number, patient: boolean): void {
    if (!patient) this.beginEnding();
    if (this.closeCode !== 0) return;
    this.closeCode = code;
    for (const way of [this.up!, this.down!]) {
      if (way.frames?.betweenFrames === true) this.sendClose(way);
      else if (!patient) way.to.destroy();
    }
  }

  private sendClose(way: Way): void {
    way.drop();
    this.beginEnding();
    // No frame may follow a close frame of the peer.
    if (way.frames?.closeSeen === false && way.to.writable) {
      way.to.write(closeFrame(this.closeCode, way === this.up));
    }
    endOnce(way.to);
    way.from.resume();
  }

  /** Closes both sockets immediately. */
  cut(): void {
    if (this.up === undefined) {
      this.hangUp?.(0, () => this.over());
      return;
    }
    this.up.from.destroy();
    this.up.to.destroy();
  }

  /** Called by the proxy's timer. */
  checkTime(): void {
    const { up, down, rules } = this;
    const { shared } = this.proxy;
    if (up === undefined || down === undefined) return;
    // Sent bytes count as activity.
    const upIsUnsent = this.checkUnsent(up);
    const unsent = this.checkUnsent(down) || upIsUnsent;
    const quietMs = shared.clockMs - Math.max(this.touchedMs, this.endingSinceMs);
    if (unsent && quietMs > rules.stalledMs) {
      shared.log.warn({ target: this.target.origin }, "connection closed: the peer does not read");
      this.cut();
    } else if (this.endingSinceMs >= 0) {
      if (!unsent && quietMs > rules.lingerMs) this.cut();
    } else if (rules.idleMs > 0 && quietMs > rules.idleMs && this.meter?.waiting !== true) {
      shared.log.info({ target: this.target.origin }, "connection closed: idle timeout");
      this.close(GOING_AWAY, false);
    } else if (this.pings!.isUnanswered(up, down, rules.pingMs, shared.clockMs)) {
      shared.log.info({ target: this.target.origin }, "connection closed: the client does not answer pings");
      this.close(GOING_AWAY, false);
    }
  }

  private checkUnsent(way: Way): boolean {
    const unsent = way.to.writableLength;
    if (unsent < way.unsent) this.touchedMs = this.proxy.shared.clockMs;
    way.unsent = unsent;
    return unsent > 0;
  }

  private beginEnding(): void {
    if (this.endingSinceMs < 0) this.endingSinceMs = this.proxy.shared.clockMs;
  }

  private wayFrom(socket: Socket): Way {
    return (socket === this.up!.from ? this.up : this.down)!;
  }

  private otherThan(socket: Socket): Socket {
    return socket === this.up!.from ? this.up!.to : this.up!.from;
  }
}

const tunnelOf = Symbol("tunnel");

interface Side extends Socket {
  [tunnelOf]?: Tunnel;
}

function onData(this: Side, chunk: Buffer): void {
  this[tunnelOf]!.passOn(this, chunk);
}

function onDrain(this: Side): void {
  this[tunnelOf]!.drained(this);
}

function onEnd(this: Side): void {
  this[tunnelOf]!.sideEnded(this);
}

function onClose(this: Side, broken: boolean): void {
  this[tunnelOf]!.sideClosed(this, broken);
}
