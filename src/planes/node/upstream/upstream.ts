/** An upstream: its targets, the choice of the next target, and passive health checks. */
import { Pool } from "undici";
import type { UpstreamOptions } from "../../../config/options/proxy.js";
import type { Log } from "../../../shared/log.js";

export interface Target {
  readonly origin: string;
  /** The name under which slots are counted: `host:port` as in the configuration. */
  readonly pod: string;
  readonly pool: Pool;
  /** Open exchanges. */
  outstanding: number;
  /** Failures in a row. */
  failures: number;
  /** Passive check: skipped until then; 0: healthy. */
  downUntilMs: number;
  /** Failed its active checks. */
  failing: boolean;
  /** Upstreams that use it. When the last releases it, its pool is closed. */
  holders: number;
}

/**
 * Replaced as a whole when the configuration changes. Targets that stay are passed on to the successor with their pool
 * and health; the others are closed after the last exchange of this upstream.
 */
export interface Upstream {
  readonly name: string;
  readonly targets: readonly Target[];
  readonly passHost: boolean;
  /**
   * The healthy target with the fewest open exchanges, in turn if several are equal; of all targets if none is healthy.
   * Never `not`; undefined if there is no other.
   */
  pick(not?: Target): Target | undefined;
  /** The healthy targets, or all if none is healthy; without `not`. */
  candidates(not?: Target): Target[];
  succeeded(target: Target): void;
  failed(target: Target): void;
  /** Result of the active checks. */
  setFailing(target: Target, failing: boolean): void;
  /** Reference counting, by the options in force and by each exchange. */
  hold(): void;
  release(): void;
}

export interface UpstreamContext {
  connectMs: number;
  headerBytes: number;
  log: Pick<Log, "info" | "warn">;
  /** Monotonic milliseconds. */
  now(): number;
  /** All open pools of the proxy. */
  pools: Set<Pool>;
}

export interface TargetName {
  origin: string;
  pod: string;
}

/** The options that a pool was created with, to tell whether it can be reused. */
const poolOptions = new WeakMap<Pool, string>();

export interface NamedUpstream {
  name: string;
  options: UpstreamOptions;
  targets: TargetName[];
}

export function createUpstream(
  { name, options, targets: targetNames }: NamedUpstream,
  { connectMs, headerBytes, log, now, pools }: UpstreamContext,
  before?: Upstream,
): Upstream {
  const { connections = 512, passHost = true, passive = {} } = options;
  const ownPoolOptions = `${connections} ${headerBytes} ${connectMs}`;
  const { failures: tolerated = 3, downMs = 10_000 } = passive;
  const known = [...(before?.targets ?? [])];
  const targets = targetNames.map((target) => adopt(target) ?? create(target));
  for (const target of targets) target.holders++;
  let turn = 0;
  let holds = 1;

  /** The same target of the predecessor; each once only, since a target can be listed twice. */
  function adopt({ origin, pod }: TargetName): Target | undefined {
    const at = known.findIndex((target) => target.origin === origin && target.pod === pod);
    if (at < 0) return undefined;
    const [same] = known.splice(at, 1);
    if (poolOptions.get(same!.pool) === ownPoolOptions) return same;
    // A new pool, but the health of the target is known.
    const { failures, downUntilMs, failing } = same!;
    return { ...create({ origin, pod }), failures, downUntilMs, failing };
  }

  function create({ origin, pod }: TargetName): Target {
    const pool = new Pool(origin, {
      connections,
      pipelining: 1,
      // The proxy checks these timeouts itself: it knows whether the client or the backend is slow.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: headerBytes,
      connect: { timeout: connectMs },
    });
    pools.add(pool);
    poolOptions.set(pool, ownPoolOptions);
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
      log.info({ upstream: name, target: target.origin }, "target is healthy again");
    },
    failed(target) {
      target.failures++;
      if (target.failures < tolerated) return;
      if (target.downUntilMs === 0) {
        log.warn({ upstream: name, target: target.origin, failures: target.failures }, "target is skipped");
      }
      target.downUntilMs = now() + downMs;
    },
    setFailing(target, failing) {
      if (target.failing === failing) return;
      target.failing = failing;
      if (failing) log.warn({ upstream: name, target: target.origin }, "target failed its health checks");
      else log.info({ upstream: name, target: target.origin }, "target passed its health checks");
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

/** Called when all its connections are idle. */
function closePool(pool: Pool, pools: Set<Pool>): void {
  if (pool.closed || pool.destroyed) return;
  void pool.close().finally(() => pools.delete(pool));
}

/** Parses a target of the configuration; throws if it is invalid. */
export function targetNameOf(target: string): TargetName {
  const pod = target.replace(/^[a-z]+:\/\//i, "").replace(/\/$/, "");
  const url = new URL(target.includes("://") ? target : `http://${target}`);
  if ((url.protocol !== "http:" && url.protocol !== "https:") || url.pathname !== "/" || url.search !== "") {
    throw new Error(`invalid target "${target}": must be host:port or http(s)://host:port`);
  }
  return { origin: url.origin, pod };
}
