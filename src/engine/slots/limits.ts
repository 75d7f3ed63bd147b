/** Limits of a route's connections, as the store applies them and as a process applies them without the store. */

export interface PlacementLimits {
  maxPerPod: number;
  /** 0: no limit. */
  maxTotal: number;
  /** 0: no limit. */
  maxPerApp: number;
  /** New connections per second over all proxies; 0: no limit. */
  ratePerSecond: number;
  /** At most this many new connections in any window of burst ÷ rate seconds. */
  burst: number;
}

/** The window in which at most `burst` connections are admitted. Its length is part of a Redis key. */
export function rateWindowMs(limits: PlacementLimits): number {
  return limits.ratePerSecond > 0 ? Math.ceil((limits.burst * 1000) / limits.ratePerSecond) : 1000;
}
