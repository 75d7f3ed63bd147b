/** One gateway: a limiter with its own lease on a store, and the proxy that it decides for. */
import { clusterPolicy, identitySettings, leasePolicy, limitedApps } from "../config/rooms.js";
import type { Config } from "../config/schema.js";
import { createLimiter, type Limiter, type LimiterObserver } from "../limiter/limiter.js";
import type { ProxyOptions, UpstreamOptions } from "../planes/node/options.js";
import { createProxy, type ReverseProxy } from "../planes/node/proxy.js";
import { createRateLimitAdmission } from "../planes/node/rate-limit-admission.js";
import { createHopTrust } from "../planes/node/trusted-hops.js";
import { createQuota } from "../quota/quota.js";
import type { Store } from "../store/store.js";
import { createDecisionLog, type Log } from "./log.js";
import { logAdmission } from "./logged-admission.js";

export interface Gateway {
  readonly proxy: ReverseProxy;
  readonly limiter: Limiter;
  /** Finishes what runs within the time, then returns all tokens. The store stays open. */
  stop(graceMs: number): Promise<void>;
}

export interface GatewayOptions {
  config: Config;
  /** This process among all that share the limits. */
  node: string;
  store: Store;
  log: Log;
}

export function createGateway({ config, node, store, log }: GatewayOptions): Gateway {
  const apps = limitedApps(config);
  const configured = new Set(apps.map(({ id }) => id));
  const limiter = createLimiter({
    node,
    target: createQuota(store, clusterPolicy(config)),
    apps,
    unknownApps: config.unknown_apps,
    lease: leasePolicy(config),
    timeoutMs: config.lease.timeout_ms,
    failOpenTokens: config.fail_open_tokens,
    observer: logObserver(log),
  });
  const identity = identitySettings(config);
  const admission = createRateLimitAdmission({
    ...identity,
    limiter,
    isTrustedHop: createHopTrust(identity.trustedHops),
    isConfigured: (app) => configured.has(app),
  });
  const decisions = createDecisionLog({ log, perSecond: config.log.refusals_per_second });
  const proxy = createProxy({
    ...proxySettings(config),
    admission: logAdmission(admission, decisions, config.log.slow_decision_ms),
    log,
  });

  return {
    proxy,
    limiter,
    async stop(graceMs) {
      await proxy.drain(graceMs);
      // Exchanges settle until the last of them has ended; only then is it known what is left to return.
      await limiter.close();
      decisions.close();
    },
  };
}

function logObserver(log: Log): LimiterObserver {
  return {
    levelChanged(level, before) {
      if (level > before) log.warn({ degradation: level, before }, "the store answers badly");
      else log.info({ degradation: level, before }, "the store answers better");
    },
    emergencyChanged: (active) => log.warn({ active }, active ? "emergency begins" : "emergency ends"),
    synced(outcome, milliseconds, apps, error) {
      if (outcome !== "ok") log.debug({ outcome, ms: Math.round(milliseconds), apps, err: error }, "a sync failed");
    },
  };
}

function proxySettings({
  routes,
  upstreams,
  limits,
  timeouts,
  identity,
}: Config): Omit<ProxyOptions, "admission" | "log"> {
  return {
    routes: routes.map(({ path, host, upstream }) => ({ path, upstream, ...(host === undefined ? {} : { host }) })),
    upstreams: Object.fromEntries(
      Object.entries(upstreams).map(([name, upstream]) => [name, upstreamOptions(upstream)]),
    ),
    trustedHops: identity.trusted_hops,
    limits: { headerBytes: limits.header_bytes, headerCount: limits.header_count, bodyBytes: limits.body_bytes },
    timeouts: {
      connectMs: timeouts.connect_ms,
      responseMs: timeouts.response_ms,
      bodyIdleMs: timeouts.body_idle_ms,
      headersMs: timeouts.headers_ms,
      requestMs: timeouts.request_ms,
      keepAliveMs: timeouts.keep_alive_ms,
      lingerMs: timeouts.linger_ms,
    },
  };
}

function upstreamOptions(upstream: Config["upstreams"][string]): UpstreamOptions {
  const { targets, connections, pass_host, passive, active } = upstream;
  const { path, interval_ms, timeout_ms, healthy_after, unhealthy_after } = active;
  return {
    targets: [...targets],
    connections,
    passHost: pass_host,
    passive: { failures: passive.failures, downMs: passive.down_ms },
    ...(path === undefined
      ? {}
      : {
          active: {
            ...{ path, intervalMs: interval_ms, timeoutMs: timeout_ms },
            ...{ healthyAfter: healthy_after, unhealthyAfter: unhealthy_after },
          },
        }),
  };
}
