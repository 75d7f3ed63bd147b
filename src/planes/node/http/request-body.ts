/** A request's body on its way to the backend: counted, limited, paused when the backend is slow, started once it is wanted. */
import { EventEmitter } from "node:events";
import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";

export interface BodyWatcher {
  /** The backend is there and asks for the body for the first time. */
  bodyWanted(): void;
  /** Bytes have come; false: no more, they are not passed on. */
  bodyMoved(bytes: number): boolean;
}

/**
 * As much of a stream as undici uses. The request itself is not given away: undici would destroy it when an attempt
 * ends, and with it the connection on which the client still waits for its answer.
 */
export class RequestBody extends EventEmitter {
  /** Some of it may have reached a backend: it cannot be sent a second time. */
  started = false;
  /** All of it has been passed on. */
  complete = false;
  /** The backend does not keep up. */
  paused = false;
  destroyed = false;

  constructor(
    private readonly request: IncomingMessage,
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
    this.request.resume();
    return this;
  }

  pause(): this {
    if (this.destroyed) return this;
    this.paused = true;
    this.request.pause();
    return this;
  }

  /** Nothing more is passed on; what becomes of the rest is the owner's business. */
  destroy(): this {
    if (this.destroyed) return this;
    this.destroyed = true;
    if (this.started) this.request.off("data", this.onData).off("end", this.onEnd);
    return this;
  }

  /** By this method undici recognises a stream; it does not call it. */
  pipe(): never {
    throw new Error("a request body is not piped");
  }

  private readonly onData = (chunk: Buffer): void => {
    if (this.watcher.bodyMoved(chunk.length)) this.emit("data", chunk);
  };

  private readonly onEnd = (): void => {
    this.complete = true;
    this.emit("end");
  };
}

/** For undici's types, which know whole streams only. */
export function asReadable(body: RequestBody): Readable {
  return body as unknown as Readable;
}
