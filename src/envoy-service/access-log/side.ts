/** What a process makes of Envoys' access logs: slots kept by the store, and exchanges settled by its own limiter. */
import { accessLogOptions } from "../../config/options/service.js";
import { upstreamPods } from "../../config/options/slots.js";
import type { Config } from "../../config/schema.js";
import { OK } from "../../core/codes.js";
import { INVALID_COST, price } from "../../core/cost.js";
import { DEFAULT_APP } from "../../core/identity.js";
import type { Limiter } from "../../limiter/limiter.js";
import type { Log } from "../../shared/log.js";
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

export function createAccessLogSide(options: AccessLogSideOptions): AccessLogSide {
  const { limiter, log } = options;
  let known = { config: options.config(), ...accessLogOptions(options.config()) };
  const now = () => {
    const config = options.config();
    if (known.config !== config) known = { config, ...accessLogOptions(config) };
    return known;
  };

  function podsOf(route: string): string[] {
    const { config, upstreams } = now();
    const upstream = upstreams.get(route);
    return upstream === undefined ? [] : upstreamPods(config, upstream, options.discovered);
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
    timeoutMs: () => now().timeoutMs,
    appOf: (name) => (now().profiles.has(name) ? name : DEFAULT_APP),
  });
  return { method: accessLogMethod({ connections, settle, log }), connections };
}
