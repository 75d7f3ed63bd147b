/** An upstream: its targets, which of them gets the next request, and what their failures say about them. */
import { Pool } from "undici";
import type { UpstreamOptions } from "../../../config/options/proxy-options.js";
import type { ProxyLog } from "../options.js";

export interface Target {
  readonly origin: string;
  /** By which slots are counted on it: `host:port` as it was written. */
  readonly pod: string;
  readonly pool: Pool;
  /** Exchanges that have not ended. */
  outstanding: number;
  /** Failures in a row. */
  failures: number;
  /** Passive: passed over until then. 0 while all is well. */
  downUntilMs: number;
  /** Active: its own answers say that it is not well. */
  failing: boolean;
  /** Upstreams that lead to it. After the last of them its pool is closed. */
  holders: number;
}

/**
 * Replaced as a whole when the configuration changes. Targets that stay are handed on to the successor, with their
 * pools and what is known of them; those that leave end with the last exchange that began with this one.
 */
export interface Upstream {
  readonly name: string;
  readonly targets: readonly Target[];
  readonly passHost: boolean;
  /**
   * The target with the least to do among the healthy ones, by turns where several have as little; among all when none
   * is healthy. `not` is left out; undefined when nothing is left.
   */
  pick(not?: Target): Target | undefined;
  /** The healthy ones, or all when none is; without `not`. */
  candidates(not?: Target): Target[];
  succeeded(target: Target): void;
  failed(target: Target): void;
  /** What an active check found out. */
  setFailing(target: Target, failing: boolean): void;
  /** One more, or one less, that needs it: the configuration in force, or an exchange. */
  hold(): void;
  release(): void;
}

export interface UpstreamSettings {
  connectMs: number;
  headerBytes: number;
  log: ProxyLog;
  /** Milliseconds that only grow. */
  now(): number;
  /** All pools there are, so that nobody need look for them. */
  pools: Set<Pool>;
}

export interface TargetName {
  origin: string;
  pod: string;
}

/** Pools that are made with the same words are the same. */
const poolWords = new WeakMap<Pool, string>();

export function createUpstream(
  name: string,
  targetNames: TargetName[],
  { connections = 512, passHost = true, passive = {} }: UpstreamOptions,
  { connectMs, headerBytes, log, now, pools }: UpstreamSettings,
  before?: Upstream,
): Upstream {
  const { failures: tolerated = 3, downMs = 10_000 } = passive;
  const known = [...(before?.targets ?? [])];
  const targets = targetNames.map((target) => adopt(target) ?? create(target));
  for (const target of targets) target.holders++;
  let turn = 0;
  let holds = 1;

  /** The same target of the predecessor; each only once, since a target can be listed twice. */
  function adopt({ origin, pod }: TargetName): Target | undefined {
    const at = known.findIndex((target) => target.origin === origin && target.pod === pod);
    if (at < 0) return undefined;
    const [same] = known.splice(at, 1);
    if (poolWords.get(same!.pool) === words()) return same;
    // It is reached in another way now, but it is as well as it was.
    const { failures, downUntilMs, failing } = same!;
    return { ...create({ origin, pod }), failures, downUntilMs, failing };
  }

  function words(): string {
    return `${connections} ${headerBytes} ${connectMs}`;
  }

  function create({ origin, pod }: TargetName): Target {
    const pool = new Pool(origin, {
      connections,
      pipelining: 1,
      // The proxy watches the time itself: it also knows whether a client or a backend is the one who waits.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: headerBytes,
      connect: { timeout: connectMs },
    });
    pools.add(pool);
    poolWords.set(pool, words());
    return { origin, pod, pool, outstanding: 0, failures: 0, downUntilMs: 0, failing: false, holders: 0 };
  }

  function isHealthy(target: Target): boolean {
    return !target.failing && (target.downUntilMs === 0 || target.downUntilMs <= now());
  }

  function least(not: Target | undefined, healthyOnly: boolean): Target | undefined {
    let best: Target | undefined;
    let bestAt = 0;
    for (let step = 0; step < targets.length; step++) {
      const at = (turn + step) % targets.length;
      const target = targets[at]!;
      if (target === not || (healthyOnly && !isHealthy(target))) continue;
      if (best === undefined || target.outstanding < best.outstanding) {
        best = target;
        bestAt = at;
      }
    }
    if (best !== undefined) turn = (bestAt + 1) % targets.length;
    return best;
  }

  return {
    name,
    targets,
    passHost,
    pick(not) {
      if (targets.length === 1) return targets[0] === not ? undefined : targets[0];
      return least(not, true) ?? least(not, false);
    },
    candidates(not) {
      const all = targets.filter((target) => target !== not);
      const healthy = all.filter(isHealthy);
      return healthy.length > 0 ? healthy : all;
    },
    succeeded(target) {
      if (target.failures === 0) return;
      target.failures = 0;
      if (target.downUntilMs === 0) return;
      target.downUntilMs = 0;
      log.info({ upstream: name, target: target.origin }, "target is back");
    },
    failed(target) {
      target.failures++;
      if (target.failures < tolerated) return;
      if (target.downUntilMs === 0) {
        log.warn({ upstream: name, target: target.origin, failures: target.failures }, "target is passed over");
      }
      target.downUntilMs = now() + downMs;
    },
    setFailing(target, failing) {
      if (target.failing === failing) return;
      target.failing = failing;
      if (failing) log.warn({ upstream: name, target: target.origin }, "target fails its checks");
      else log.info({ upstream: name, target: target.origin }, "target passes its checks");
      if (!failing) {
        target.failures = 0;
        target.downUntilMs = 0;
      }
    },
    hold() {
      holds++;
    },
    release() {
      if (--holds > 0) return;
      for (const target of targets) {
        if (--target.holders === 0) closePool(target.pool, pools);
      }
    },
  };
}

/** Nobody uses it any more: its connections are idle. */
function closePool(pool: Pool, pools: Set<Pool>): void {
  if (pool.closed || pool.destroyed) return;
  void pool.close().finally(() => pools.delete(pool));
}

/** Reads a target as it is written in the configuration; throws for what is none. */
export function targetNameOf(target: string): TargetName {
  const pod = target.replace(/^[a-z]+:\/\//i, "").replace(/\/$/, "");
  const url = new URL(target.includes("://") ? target : `http://${target}`);
  if ((url.protocol !== "http:" && url.protocol !== "https:") || url.pathname !== "/" || url.search !== "") {
    throw new Error(`"${target}" is no target: give host:port, or http(s)://host:port`);
  }
  return { origin: url.origin, pod };
}
