/** A running request that needs a connection to a target: takes its share of them, or waits for one, at most once for the configured time. */
import type { Place, Seeker } from "../upstream/connection-shares.js";
import type { Target } from "../upstream/upstream.js";
import { RunningRequest } from "./running-request.js";

export abstract class SeekingRequest extends RunningRequest implements Seeker {
  protected target: Target | undefined;
  /** Its connection to the target, or its place in the queue for one. */
  private place: Place | undefined;
  /** The end of its time in queues, for all attempts together; 0: it has not waited yet. */
  private waitsUntilMs = 0;

  abstract connectionFree(): void;
  abstract mayYield(): boolean;

  /** `connectionFree` follows, now or later, or the request fails. */
  protected seek(target: Target): void {
    this.target = target;
    this.place = target.shares.enter(this.verdict!.app, this.routed.client, this);
    if (this.place === undefined) this.fail("upstream_queue_full");
    else if (this.place.untilMs === undefined) this.connectionFree();
  }

  waitUntilMs(): number {
    if (this.waitsUntilMs === 0) this.waitsUntilMs = performance.now() + this.routed.options.timeouts.queueMs;
    return this.waitsUntilMs;
  }

  waitedTooLong(): void {
    this.fail("upstream_queue_timeout");
  }

  yieldConnection(): void {
    this.fail("body_timeout", "slow, and other requests wait for its connection");
  }

  /** Repeated calls do nothing. */
  protected leaveTarget(): void {
    const { place } = this;
    this.place = undefined;
    if (place !== undefined) this.target!.shares.leave(place);
  }
}
