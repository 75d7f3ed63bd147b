/** A connection that has left HTTP: bytes pass untouched both ways, and its slot is freed once the backend has let go of it. */
import type { Socket } from "node:net";
import type { SlotHold } from "../../../slots/admission.js";
import type { ConnectionRules } from "../settings.js";
import type { Shared } from "../shared.js";
import type { Target } from "../upstream/upstream.js";
import { closeFrame, GOING_AWAY, TRY_AGAIN_LATER } from "./close-frame.js";
import type { Line } from "./dial.js";
import { FrameTracker } from "./frame-tracker.js";

/** Unsent bytes from which on the sender waits. */
const ENOUGH_UNSENT = 65_536;
/** How soon a pod that was taken out of the configuration is asked whether it is still there. */
const DEPARTED_PING_MS = 1_000;

/** One direction. */
class Way {
  bytes = 0;
  /** The proxy itself has said the last word here: whatever else comes is dropped. */
  closed = false;
  /** Unsent bytes when last looked at. */
  unsent = 0;

  constructor(
    readonly from: Socket,
    readonly to: Socket,
    /** Of WebSockets only. */
    readonly frames: FrameTracker | undefined,
  ) {}
}

/** What is told when it is over: bytes from the client, bytes from the backend. */
export type TunnelEnd = (requestBytes: number, responseBytes: number) => void;

/**
 * Begins with a slot and ends when that is free. There may be ten thousand of them, most of them idle: so there are no
 * timers and hardly a closure for each, and nothing of the request is kept.
 */
export class Tunnel {
  private held: SlotHold | undefined;
  /** While the backend is called. */
  private line: Line | undefined;
  private up: Way | undefined;
  private down: Way | undefined;
  private whenOver: TunnelEnd | undefined;
  private openSockets = 0;
  private touchedMs = 0;
  /** What the proxy wants to say to both, as soon as it can. 0: nothing. */
  private closeCode = 0;
  /** It is on its way to the end; -1: it is not. */
  private endingSinceMs = -1;
  /** The slot is not its own any more. */
  lost = false;

  constructor(
    private readonly shared: Shared,
    private readonly all: Set<Tunnel>,
    private readonly rules: ConnectionRules,
    readonly target: Target,
    slot: SlotHold,
  ) {
    this.held = slot;
    all.add(this);
    slot.onLost(() => this.loseSlot());
  }

  get isOpen(): boolean {
    return this.openSockets > 0;
  }

  calling(line: Line): void {
    this.line = line;
  }

  /** Frees the slot, which happens once, however often it is called. */
  release(): void {
    const { held } = this;
    this.held = undefined;
    held?.release();
  }

  /** It comes to nothing. The slot is free when the backend, if it was called, has heard of it. */
  abandon(): void {
    if (this.line === undefined) this.over();
    else this.line.hangUp(this.rules.lingerMs, () => this.over());
  }

  /** Both sockets are the tunnel's own from now on. What had come from either goes through `passOn` afterwards. */
  open(client: Socket, backend: Socket, isWebSocket: boolean, whenOver: TunnelEnd): void {
    this.line = undefined;
    this.up = new Way(client, backend, isWebSocket ? new FrameTracker() : undefined);
    this.down = new Way(backend, client, isWebSocket ? new FrameTracker() : undefined);
    this.whenOver = whenOver;
    this.touchedMs = this.shared.clockMs;
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
    // One that was closed before will not say so again.
    if (socket.closed) this.sideClosed(socket, false);
  }

  passOn(from: Socket, chunk: Buffer): void {
    const way = (from === this.up!.from ? this.up : this.down)!;
    this.touchedMs = this.shared.clockMs;
    way.bytes += chunk.length;
    if (way.closed || !way.to.writable) return;
    const whole = way.frames === undefined ? -1 : way.frames.pass(chunk);
    if (this.closeCode === 0 || whole < 0) {
      way.to.write(chunk);
      if (way.to.writableLength >= ENOUGH_UNSENT) way.from.pause();
      return;
    }
    // It was in the middle of a frame when the end was decided; that is whole now.
    way.to.write(chunk.subarray(0, whole));
    this.sayClose(way);
  }

  drained(socket: Socket): void {
    this.touchedMs = this.shared.clockMs;
    this.otherThan(socket).resume();
  }

  /** One side has nothing more to say. The other may go on where the protocol knows such a thing. */
  sideEnded(socket: Socket): void {
    endOnce(this.otherThan(socket));
    if (this.up!.frames === undefined) return;
    // Nobody speaks to a backend that has hung up; and who waits for the slot should not wait longer than needed.
    if (socket === this.up!.to) endOnce(socket);
    this.beginEnding();
  }

  sideClosed(socket: Socket, broken: boolean): void {
    const ofBackend = socket === this.up!.to;
    if (ofBackend) this.release();
    if (--this.openSockets === 0) {
      this.whenOver?.(this.up!.bytes, this.down!.bytes);
      this.over();
      return;
    }
    this.beginEnding();
    const other = this.otherThan(socket);
    // Where a stream has no end of its own, a reset must not look like one.
    if (broken && this.up!.frames === undefined) other.resetAndDestroy();
    else {
      // What it still has to say goes nowhere, but its end shall be heard.
      (ofBackend ? this.up! : this.down!).closed = true;
      endOnce(other);
      other.resume();
    }
  }

  private over(): void {
    this.release();
    this.whenOver = undefined;
    this.all.delete(this);
  }

  private loseSlot(): void {
    if (this.lost) return;
    this.lost = true;
    if (this.openSockets === 0) return;
    this.shared.log.warn({ target: this.target.origin }, "connection closed: it has lost its slot");
    this.close(TRY_AGAIN_LATER, false);
  }

  /** The gateway leaves. What is no WebSocket cannot be told; it is cut when the time is up. */
  goAway(): void {
    if (this.up?.frames !== undefined) this.close(GOING_AWAY, true);
  }

  /** The configuration has no such pod any more: whether it is still there should be known soon. */
  podDeparted(): void {
    this.up?.to.setKeepAlive(true, DEPARTED_PING_MS);
  }

  /** `patient`: a frame that is under way may end. */
  private close(code: number, patient: boolean): void {
    if (!patient) this.beginEnding();
    if (this.closeCode !== 0) return;
    this.closeCode = code;
    for (const way of [this.up!, this.down!]) {
      if (way.frames?.betweenFrames === true) this.sayClose(way);
      else if (!patient) way.to.destroy();
    }
  }

  private sayClose(way: Way): void {
    way.closed = true;
    this.beginEnding();
    // Where the other end has said it already, nothing may follow.
    if (way.frames?.closeSeen === false && way.to.writable) {
      way.to.write(closeFrame(this.closeCode, way === this.up));
    }
    endOnce(way.to);
    way.from.resume();
  }

  /** At once. */
  cut(): void {
    if (this.up === undefined) {
      this.line?.hangUp(0, () => this.over());
      return;
    }
    this.up.from.destroy();
    this.up.to.destroy();
  }

  /** Called by the sweep. */
  checkTime(): void {
    const { up, down, shared, rules } = this;
    if (up === undefined || down === undefined) return;
    // Bytes that leave are bytes that move.
    const upIsUnsent = this.lookAtUnsent(up);
    const unsent = this.lookAtUnsent(down) || upIsUnsent;
    const quietMs = shared.clockMs - Math.max(this.touchedMs, this.endingSinceMs);
    if (unsent && quietMs > rules.stalledMs) {
      shared.log.warn({ target: this.target.origin }, "connection cut: its bytes are not fetched");
      this.cut();
    } else if (this.endingSinceMs >= 0) {
      if (!unsent && quietMs > rules.lingerMs) this.cut();
    } else if (rules.idleMs > 0 && quietMs > rules.idleMs) {
      shared.log.info({ target: this.target.origin }, "connection closed: it was idle");
      this.close(GOING_AWAY, false);
    }
  }

  private lookAtUnsent(way: Way): boolean {
    const unsent = way.to.writableLength;
    if (unsent < way.unsent) this.touchedMs = this.shared.clockMs;
    way.unsent = unsent;
    return unsent > 0;
  }

  private beginEnding(): void {
    if (this.endingSinceMs < 0) this.endingSinceMs = this.shared.clockMs;
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

/** A second time would make an error, and a trace of its stack for nobody. */
function endOnce(socket: Socket): void {
  if (!socket.writableEnded) socket.end();
}

function ignore(): void {}
