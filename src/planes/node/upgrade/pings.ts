/** Pings a silent WebSocket client, and notices one that is gone. */
import { isOwnPong, pingFrame } from "./frames.js";
import type { Way } from "./way.js";

export class ClientPings {
  /** When the client sent its last byte, or there was a reason not to read from it; on the proxy's clock. */
  private heardMs: number;
  /** A ping was sent since. */
  private waiting = false;
  /** Checks since the deadline of the ping has passed. */
  private lateChecks = 0;

  constructor(clockMs: number) {
    this.heardMs = clockMs;
  }

  /**
   * The client sent bytes. Returns true if they are only the pong to a ping of the gateway: the client's application did not send
   * it, so it neither costs anything nor keeps an idle connection open.
   */
  heard(chunk: Buffer, up: Way, clockMs: number): boolean {
    const isPong = this.waiting && up.frames?.betweenFrames === true && isOwnPong(chunk);
    this.restart(clockMs);
    return isPong;
  }

  /**
   * Called by the proxy's timer. Pings a client that was silent for `pingMs`. Returns true if it stays silent for as long again:
   * it is gone, even if its machine or a proxy in between still answers TCP keep-alive probes.
   */
  isUnanswered(up: Way, { to: client, frames }: Way, pingMs: number, clockMs: number): boolean {
    if (pingMs === 0 || frames === undefined) return false;
    // A pong may wait behind bytes that are not read yet.
    if (up.held !== undefined || up.from.isPaused()) this.restart(clockMs);
    if (clockMs - this.heardMs <= pingMs) return false;
    if (this.waiting) {
      // After a pause of this process, bytes of the client may not have been read yet when the first check is made.
      this.lateChecks++;
      return this.lateChecks > 1;
    }
    // Control frames may stand between the frames of a message, but neither within a frame nor after a close frame.
    if (!frames.betweenFrames || frames.closeSeen || !client.writable) return false;
    client.write(pingFrame());
    this.waiting = true;
    this.heardMs = clockMs;
    return false;
  }

  private restart(clockMs: number): void {
    this.heardMs = clockMs;
    this.waiting = false;
    this.lateChecks = 0;
  }
}
