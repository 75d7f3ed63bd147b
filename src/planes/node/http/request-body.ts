/** A request body on its way to the backend: counted, limited, and paused while the backend is slow or tokens are missing. */
import { EventEmitter } from "node:events";
import type { ClientRequest } from "./client-messages.js";

export interface BodyWatcher {
  /** The backend is connected and the body is read for the first time. */
  bodyWanted(): void;
  /** Called for each chunk. If it returns false, the chunk is not passed on: it is dropped, or was given to `hold`. */
  bodyMoved(chunk: Buffer): boolean;
}

/**
 * The part of a stream that undici uses. It does not get the request itself, because it would destroy it after a failed
 * attempt, and with it the client's connection.
 */
export class RequestBody extends EventEmitter {
  /** A part may have reached a backend: it cannot be sent again. */
  started = false;
  /** All of it was passed on. */
  complete = false;
  /** The backend is slow. */
  paused = false;
  destroyed = false;
  /** Read from the client and not passed on yet. */
  private held: Buffer | undefined;
  /** The period in which the client's rate is measured. */
  private periodSinceMs = 0;
  private periodBytes = 0;

  constructor(
    private readonly request: ClientRequest,
    private readonly watcher: BodyWatcher,
  ) {
    super();
  }

  resume(): this {
    if (this.destroyed) return this;
    this.paused = false;
    if (!this.started) {
      this.started = true;
      this.request.on("data", this.onData).on("end", this.onEnd);
      this.watcher.bodyWanted();
    }
    if (this.held === undefined) this.request.resume();
    return this;
  }

  /** Keeps a chunk and reads no further. */
  hold(chunk: Buffer): void {
    this.held = chunk;
    this.request.pause();
  }

  get heldBytes(): number {
    return this.held?.length ?? 0;
  }

  /** Passes the held chunk on and continues. */
  release(): void {
    const { held } = this;
    if (this.destroyed || held === undefined) return;
    this.held = undefined;
    this.emit("data", held);
    if (!this.paused && !this.destroyed) this.request.resume();
  }

  measureFrom(nowMs: number): void {
    this.periodSinceMs = nowMs;
    this.periodBytes = 0;
  }

  /** Whether the client sent fewer bytes per second in the last period. A period in which it was not read does not count. */
  isBelow(bytesPerSecond: number, periodMs: number, nowMs: number): boolean {
    const elapsedMs = nowMs - this.periodSinceMs;
    if (!this.paused && elapsedMs < periodMs) return false;
    const isBelow = !this.paused && this.periodBytes < (bytesPerSecond * elapsedMs) / 1000;
    this.measureFrom(nowMs);
    return isBelow;
  }

  pause(): this {
    if (this.destroyed) return this;
    this.paused = true;
    this.request.pause();
    return this;
  }

  /** Passes nothing more on. The owner handles the rest of the request. */
  destroy(): this {
    if (this.destroyed) return this;
    this.destroyed = true;
    this.held = undefined;
    if (this.started) this.request.off("data", this.onData).off("end", this.onEnd);
    return this;
  }

  /** undici recognises a stream by this method and does not call it. */
  pipe(): never {
    throw new Error("a request body is not piped");
  }

  private readonly onData = (chunk: Buffer): void => {
    this.periodBytes += chunk.length;
    if (this.watcher.bodyMoved(chunk)) this.emit("data", chunk);
  };

  private readonly onEnd = (): void => {
    this.complete = true;
    this.emit("end");
  };
}
