/** One direction of a tunnel. */
import type { Socket } from "node:net";
import type { FrameTracker } from "./frames.js";

export class Way {
  bytes = 0;
  /** The proxy has closed this direction: further bytes are dropped. */
  closed = false;
  /** Unsent bytes at the last check. */
  unsent = 0;
  /** Received, and not paid yet. The sender is paused. */
  held: Buffer | undefined;
  /** The sender has closed its direction after the held bytes. */
  endHeld = false;

  constructor(
    readonly from: Socket,
    readonly to: Socket,
    /** For WebSockets only. */
    readonly frames: FrameTracker | undefined,
  ) {}

  hold(chunk: Buffer): void {
    this.held = chunk;
    this.from.pause();
  }

  /** Further bytes are read and dropped. */
  drop(): void {
    this.closed = true;
    this.held = undefined;
  }
}

/** A second call of `end` would create an error. */
export function endOnce(socket: Socket): void {
  if (!socket.writableEnded) socket.end();
}
