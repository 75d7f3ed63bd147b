/** What a process makes of Envoys' access logs: slots kept by the store, and exchanges settled by its own limiter. */
import { limitedApps } from "../../config/rooms.js";
import type { Config } from "../../config/schema.js";
import { OK } from "../../core/codes.js";
import { type CostProfile, INVALID_COST, price } from "../../core/cost.js";
import { DEFAULT_APP } from "../../core/identity.js";
import type { Limiter } from "../../limiter/limiter.js";
import { keeperSettings } from "../../service/process/settings.js";
import type { Log } from "../../shared/log.js";
import { leaseOf } from "../../slots/limits.js";
import type { SlotKeeperObserver } from "../../slots/slot-keeper-options.js";
import type { Slots } from "../../slots/slots.js";
import type { ClientStreamMethod } from "../grpc/server.js";
import { createEnvoyConnections, type EnvoyConnections } from "./envoy-connections.js";
import { accessLogMethod, type Settlement } from "./service.js";

export interface AccessLogSideOptions {
  /** In force now. */
  config(): Config;
  slots: Pick<Slots, "acquire" | "renew" | "release">;
  limiter: Pick<Limiter, "settle" | "giveBack">;
  /** The targets of an upstream that were found by name. */
  discovered(upstream: string): string[] | undefined;
  observer: SlotKeeperObserver;
  log: Log;
}

export interface AccessLogSide {
  method: ClientStreamMethod;
  connections: EnvoyConnections;
}

/** What of a configuration is needed for each entry. */
interface Known {
  config: Config;
  leaseMs: number;
  profiles: Map<string, CostProfile>;
  upstreams: Map<string, string>;
}

export function createAccessLogSide(options: AccessLogSideOptions): AccessLogSide {
  const { limiter, log } = options;
  let known = knownOf(options.config());
  const now = () => {
    const config = options.config();
    if (known.config !== config) known = knownOf(config);
    return known;
  };

  function podsOf(route: string): string[] {
    const { config, upstreams } = now();
    const upstream = upstreams.get(route);
    if (upstream === undefined) return [];
    const { targets = [] } = config.upstreams[upstream] ?? {};
    return [...targets.map((target) => target.replace(/^https?:\/\//, "")), ...(options.discovered(upstream) ?? [])];
  }

  /** What Envoy's worker took is charged or given back here, on a lease of this process: the store adds them up. */
  function settle({ app, method, paid, requestBytes, responseBytes }: Settlement): void {
    const profile = now().profiles.get(app);
    if (profile === undefined) return;
    const actual = price(profile, method, requestBytes + responseBytes);
    if (actual === INVALID_COST || actual === paid) return;
    if (actual < paid) {
      limiter.giveBack(app, paid - actual);
      return;
    }
    const taken = { allowed: true, code: OK, dryRun: false, app, method, cost: paid } as const;
    const unknown = { balance: 0, remaining: 0, limit: 0, rate: 0, retryAfterMs: 0, source: "remote" } as const;
    limiter.settle({ ...taken, ...unknown }, requestBytes, responseBytes);
  }

  const connections = createEnvoyConnections({
    ...{ slots: options.slots, podsOf, observer: options.observer },
    leaseMs: () => now().leaseMs,
    timeoutMs: () => options.config().lease.timeout_ms,
    appOf: (name) => (now().profiles.has(name) ? name : DEFAULT_APP),
  });
  return { method: accessLogMethod({ connections, settle, log }), connections };
}

function knownOf(config: Config): Known {
  return {
    config,
    leaseMs: leaseOf(keeperSettings(config).routes),
    profiles: new Map(limitedApps(config).map(({ id, profile }) => [id, profile])),
    upstreams: new Map(config.routes.map(({ host = "", path, upstream }) => [`${host}${path}`, upstream])),
  };
}
