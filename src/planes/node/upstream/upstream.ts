/** An upstream: its targets, the choice of the next target, and passive health checks. */
import { Pool } from "undici";
import { defaultUpstream, type UpstreamOptions } from "../../../config/options/proxy.js";
import type { Clock } from "../../../shared/clock.js";
import type { Log } from "../../../shared/log.js";
import type { TlsClients } from "../../../shared/tls/tls-clients.js";
import { type BackendTls, backendConnector } from "./backend-socket.js";
import { ConnectionShares } from "./connection-shares.js";

export interface Target {
  readonly origin: string;
  /** The name under which slots are counted: `host:port` as in the configuration. */
  readonly pod: string;
  readonly pool: Pool;
  readonly tls: BackendTls;
  /** Its connections, and the queue for them. */
  readonly shares: ConnectionShares;
  /** Failures in a row. */
  failures: number;
  /** Passive check: skipped until then; 0: healthy. */
  downUntilMs: number;
  /** Failed its active checks. */
  failing: boolean;
  /** Upstreams that use it. When the last releases it, its pool is closed. */
  holders: number;
  /** What the pool was created with, to tell whether it can be reused. */
  poolOptions: string;
}

export interface UpstreamContext {
  /** To each target, whatever the configuration says. */
  maxConnections: number;
  connectMs: number;
  headerBytes: number;
  log: Pick<Log, "info" | "warn">;
  clock: Clock;
  /** All open pools of the proxy. */
  pools: Set<Pool>;
  tlsClients: TlsClients;
}

type TargetName = Pick<Target, "origin" | "pod">;

interface NamedUpstream {
  name: string;
  options: UpstreamOptions;
  targets: TargetName[];
}

/**
 * Replaced as a whole when the configuration changes. Targets that stay are passed on to the successor with their pool
 * and health; the others are closed after the last exchange of this upstream.
 */
export class Upstream {
  readonly name: string;
  readonly targets: readonly Target[];
  readonly passHost: boolean;
  private readonly tolerated: number;
  private readonly downMs: number;
  private turn = 0;
  private holds = 1;

  constructor(
    { name, options, targets }: NamedUpstream,
    private readonly context: UpstreamContext,
    before?: Upstream,
  ) {
    const { connections: wanted, queue, passHost, tls = {} } = { ...defaultUpstream, ...options };
    const passive = { ...defaultUpstream.passive, ...options.passive };
    const files = options.tls === undefined ? undefined : context.tlsClients.of(`upstreams.${name}.tls`, tls);
    const connections = Math.min(wanted, context.maxConnections);
    if (connections < wanted) {
      const message = "fewer connections to each target than configured: the limit of open files is too low";
      context.log.warn({ upstream: name, connections, configured: wanted }, message);
    }
    this.name = name;
    this.passHost = passHost;
    this.tolerated = passive.failures;
    this.downMs = passive.downMs;
    const known = [...(before?.targets ?? [])];
    this.targets = targets.map((target) => {
      // Each target of the predecessor once only, since a target can be listed twice.
      const at = known.findIndex(({ origin, pod }) => origin === target.origin && pod === target.pod);
      const same = at < 0 ? undefined : known.splice(at, 1)[0];
      const { hostname } = new URL(target.origin);
      const own = { serverName: tls.name ?? hostname.replace(/^\[(.*)\]$/, "$1"), files };
      return targetOf({ ...target, connections, tls: own }, context, same);
    });
    for (const target of this.targets) {
      target.holders++;
      target.shares.maxWaiting = queue;
    }
  }

  private isHealthy(target: Target): boolean {
    return !target.failing && (target.downUntilMs === 0 || target.downUntilMs <= this.context.clock.now());
  }

  /**
   * The healthy target with the fewest open exchanges, in turn if several are equal; of all targets if none is healthy.
   * Never `not`; undefined if there is no other.
   */
  pick(not?: Target): Target | undefined {
    const { targets } = this;
    if (targets.length === 1) return targets[0] === not ? undefined : targets[0];
    return this.least(not, true) ?? this.least(not, false);
  }

  private least(not: Target | undefined, healthyOnly: boolean): Target | undefined {
    const { targets, turn } = this;
    let best: Target | undefined;
    for (let step = 0; step < targets.length; step++) {
      const at = (turn + step) % targets.length;
      const target = targets[at]!;
      if (target === not || (healthyOnly && !this.isHealthy(target))) continue;
      if (best === undefined || target.shares.outstanding < best.shares.outstanding) {
        best = target;
        this.turn = (at + 1) % targets.length;
      }
    }
    return best;
  }

  /** The healthy targets, or all if none is healthy; without `not`. */
  candidates(not?: Target): Target[] {
    const all = this.targets.filter((target) => target !== not);
    const healthy = all.filter((target) => this.isHealthy(target));
    return healthy.length > 0 ? healthy : all;
  }

  succeeded(target: Target): void {
    if (target.failures === 0) return;
    target.failures = 0;
    if (target.downUntilMs === 0) return;
    target.downUntilMs = 0;
    this.context.log.info({ upstream: this.name, target: target.origin }, "target is healthy again");
  }

  failed(target: Target): void {
    target.failures++;
    if (target.failures < this.tolerated) return;
    const { log, clock } = this.context;
    if (target.downUntilMs === 0) {
      log.warn({ upstream: this.name, target: target.origin, failures: target.failures }, "target is skipped");
    }
    target.downUntilMs = clock.now() + this.downMs;
  }

  /** Result of the active checks. */
  setFailing(target: Target, failing: boolean): void {
    if (target.failing === failing) return;
    target.failing = failing;
    const fields = { upstream: this.name, target: target.origin };
    if (failing) {
      this.context.log.warn(fields, "target failed its health checks");
      return;
    }
    this.context.log.info(fields, "target passed its health checks");
    target.failures = 0;
    target.downUntilMs = 0;
  }

  /** Reference counting, by the options in force and by each exchange. */
  hold(): void {
    this.holds++;
  }

  release(): void {
    if (--this.holds > 0) return;
    for (const target of this.targets) {
      const { pool } = target;
      if (--target.holders > 0 || pool.closed || pool.destroyed) continue;
      // All its connections are idle.
      void pool.close().finally(() => this.context.pools.delete(pool));
    }
  }
}

/** The same target of the predecessor, or a new one, which keeps the known health. */
function targetOf(
  { origin, pod, connections, tls }: TargetName & { connections: number; tls: BackendTls },
  { connectMs, headerBytes, pools, clock }: UpstreamContext,
  same: Target | undefined,
): Target {
  const poolOptions = `${connections} ${headerBytes} ${connectMs}`;
  const isSameTls = same?.tls.serverName === tls.serverName && same.tls.files === tls.files;
  if (same?.poolOptions === poolOptions && isSameTls) return same;
  const pool = new Pool(origin, {
    connections,
    pipelining: 1,
    // The proxy checks these timeouts itself: it knows whether the client or the backend is slow.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: headerBytes,
    connect: backendConnector(connectMs, tls),
  });
  pools.add(pool);
  const { failures = 0, downUntilMs = 0, failing = false } = same ?? {};
  return {
    origin,
    pod,
    pool,
    tls,
    poolOptions,
    shares: new ConnectionShares(connections, 0, clock),
    failures,
    downUntilMs,
    failing,
    holders: 0,
  };
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
