/**
 * Bounds what a peer without credentials can make a listener do: a few requests at a time, and as many per second as their
 * replies are small. Further ones wait for their turn, so that data planes and operators are not delayed.
 */
import type { Clock } from "../clock.js";

/** Requests of one peer that are handled at a time. */
const MOST_RUNNING = 4;
/** Requests of one peer that wait. The connections of further ones are closed. */
const MOST_WAITING = 256;
/** A request costs one unit, and one more for this many bytes of its reply. */
const BYTES_PER_UNIT = 8_192;
const UNITS_PER_SECOND = 200;
const MOST_UNITS = 1_000;

interface Peer {
  /** Negative after a large reply: then requests wait. */
  units: number;
  /** When the units were computed. */
  at: number;
  running: number;
  /** In the order in which they came. */
  waiting: Set<() => void>;
  stopTimer: (() => void) | undefined;
}

/** A request that may be handled. */
export interface PeerTurn {
  /** The request is done, with this many bytes sent. To be called once. */
  end(bytes: number): void;
}

export function createPeerTurns(clock: Clock) {
  /** Peers that have used units which are not back yet, or have requests. */
  const peers = new Map<string, Peer>();

  function known(key: string): Peer {
    let peer = peers.get(key);
    if (peer === undefined) {
      peer = { units: MOST_UNITS, at: clock.now(), running: 0, waiting: new Set(), stopTimer: undefined };
      peers.set(key, peer);
    }
    const now = clock.now();
    peer.units = Math.min(peer.units + ((now - peer.at) * UNITS_PER_SECOND) / 1000, MOST_UNITS);
    peer.at = now;
    return peer;
  }

  /** Starts requests that wait, or waits until units are back. A peer that needs nothing is forgotten. */
  function proceed(key: string): void {
    const peer = known(key);
    peer.stopTimer?.();
    peer.stopTimer = undefined;
    for (const start of peer.waiting) {
      if (peer.running >= MOST_RUNNING || peer.units <= 0) break;
      peer.waiting.delete(start);
      start();
    }
    if (peer.waiting.size > 0 && peer.running >= MOST_RUNNING) return;
    if (peer.waiting.size === 0 && peer.running === 0 && peer.units >= MOST_UNITS) {
      peers.delete(key);
      return;
    }
    const wanted = peer.waiting.size > 0 ? 1 : MOST_UNITS;
    const waitMs = Math.max(Math.ceil(((wanted - peer.units) * 1000) / UNITS_PER_SECOND), 1);
    peer.stopTimer = clock.after(waitMs, () => proceed(key));
  }

  function start(key: string, peer: Peer): PeerTurn {
    peer.running++;
    peer.units--;
    return {
      end(bytes) {
        const now = known(key);
        now.running--;
        now.units -= bytes / BYTES_PER_UNIT;
        proceed(key);
      },
    };
  }

  return {
    /**
     * Resolves when a request of the peer may be handled; undefined if too many wait, or the request has ended.
     * @param onEnd registers what to do when the request ends by itself
     */
    next(key: string, onEnd: (ended: () => void) => void): PeerTurn | Promise<PeerTurn | undefined> | undefined {
      const peer = known(key);
      if (peer.waiting.size === 0 && peer.running < MOST_RUNNING && peer.units > 0) return start(key, peer);
      if (peer.waiting.size >= MOST_WAITING) return undefined;
      return new Promise((resolve) => {
        const begin = () => resolve(start(key, peer));
        peer.waiting.add(begin);
        onEnd(() => {
          if (peer.waiting.delete(begin)) resolve(undefined);
        });
        if (peer.stopTimer === undefined || peer.waiting.size === 1) proceed(key);
      });
    },

    /** Whether a further request would not even wait. */
    isFull: (key: string) => (peers.get(key)?.waiting.size ?? 0) >= MOST_WAITING,
  };
}
