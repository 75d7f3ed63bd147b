/** An upstream: its targets, which of them gets the next request, and what their failures say about them. */
import { Pool } from "undici";
import type { ProxyLog, UpstreamOptions } from "./options.js";

export interface Target {
  readonly origin: string;
  readonly pool: Pool;
  /** Exchanges that have not ended. */
  outstanding: number;
  /** Failures in a row. */
  failures: number;
  /** Passive: passed over until then. 0 while all is well. */
  downUntilMs: number;
  /** Active: its own answers say that it is not well. */
  failing: boolean;
}

export interface Upstream {
  readonly name: string;
  readonly targets: readonly Target[];
  readonly passHost: boolean;
  /**
   * The target with the least to do among the healthy ones, by turns where several have as little; among all when none
   * is healthy. `not` is left out; undefined when nothing is left.
   */
  pick(not?: Target): Target | undefined;
  succeeded(target: Target): void;
  failed(target: Target): void;
  /** What an active check found out. */
  setFailing(target: Target, failing: boolean): void;
  close(): Promise<void>;
}

export interface UpstreamSettings {
  connectMs: number;
  headerBytes: number;
  log: ProxyLog;
  /** Milliseconds that only grow. */
  now(): number;
}

export function createUpstream(
  name: string,
  { targets: origins, connections = 512, passHost = true, passive = {} }: UpstreamOptions,
  { connectMs, headerBytes, log, now }: UpstreamSettings,
): Upstream {
  const { failures: tolerated = 3, downMs = 10_000 } = passive;
  if (origins.length === 0) throw new Error(`upstream "${name}" has no targets`);
  const targets = origins.map((text): Target => {
    const origin = originOf(text);
    const pool = new Pool(origin, {
      connections,
      pipelining: 1,
      // The proxy watches the time itself: it also knows whether a client or a backend is the one who waits.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: headerBytes,
      connect: { timeout: connectMs },
    });
    return { origin, pool, outstanding: 0, failures: 0, downUntilMs: 0, failing: false };
  });
  let turn = 0;

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
    async close() {
      await Promise.all(targets.map(({ pool }) => pool.destroy()));
    },
  };
}

function originOf(target: string): string {
  const url = new URL(target.includes("://") ? target : `http://${target}`);
  if ((url.protocol !== "http:" && url.protocol !== "https:") || url.pathname !== "/" || url.search !== "") {
    throw new Error(`"${target}" is no target: give host:port, or http(s)://host:port`);
  }
  return url.origin;
}
