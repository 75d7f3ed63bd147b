/** The real gateway in this process, on an embedded store whose clock the test drives, with one app of a small burst. */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { schema } from "../../src/config/schema.js";
import type { UnknownLength } from "../../src/core/app-limits.js";
import { createQuota } from "../../src/quota/quota.js";
import type { MetricsReport } from "../../src/service/metrics/reports.js";
import { createGateway } from "../../src/service/process/gateway.js";
import type { Log } from "../../src/shared/log.js";
import { type SecureServerOptions, secureServer } from "../../src/shared/tls/secure-server.js";
import { createEmbeddedStore } from "../../src/store/embedded/embedded-store.js";

export const QUANTUM = 65_536;
export const BURST = 20;
/** Tokens per second of the store's clock. */
export const RATE = 10;

const CLUSTER = { id: "metered", capacity: 1_000_000, rate: 1_000_000, nodeTtlMs: 3_600_000 };

/** The gateway, or another data plane of such an app. */
export interface MeteredPlane {
  readonly port: number;
  /** Adds this many tokens to the bucket, by advancing the store's clock. */
  refill(tokens: number): void;
  /** Closes the plane and returns what the app was charged in total, less refunds. */
  charged(): Promise<number>;
  stop(): Promise<void>;
}

export interface MeteredGateway extends MeteredPlane {
  readonly lines: Record<string, unknown>[];
  /** Transfers that were delayed and aborted, from the metrics. */
  limited(): Record<string, number>;
}

export interface MeteredPlaneOptions {
  target: string;
  policy: UnknownLength;
  dryRun?: boolean;
  bodyIdleMs?: number;
}

export interface MeteredGatewayOptions extends MeteredPlaneOptions {
  tls?: SecureServerOptions;
}

export async function startMeteredGateway(options: MeteredGatewayOptions): Promise<MeteredGateway> {
  const { target, policy, dryRun = false, bodyIdleMs = 60_000 } = options;
  let seconds = 1_800_000_000;
  const store = createEmbeddedStore({ clock: () => seconds * 1_000_000 });
  const lines: Record<string, unknown>[] = [];
  const note = (level: string) => (fields: object, message: string) => void lines.push({ level, ...fields, message });
  const log = {
    debug: () => undefined,
    info: note("info"),
    warn: note("warn"),
    error: note("error"),
  } as unknown as Log;
  const config = schema.parse({
    cluster: { id: CLUSTER.id, capacity: CLUSTER.capacity, rate: CLUSTER.rate, node_ttl_ms: CLUSTER.nodeTtlMs },
    apps: { default: { guaranteed: RATE, burst: BURST, unknown_length: policy, dry_run: dryRun } },
    upstreams: { backend: { targets: [target] } },
    routes: [{ path: "/", upstream: "backend", connections: {} }],
    timeouts: { body_idle_ms: bodyIdleMs },
  });
  const gateway = createGateway({ config, configVersion: "", node: "gateway", store, log });
  const { server } = gateway.proxy;
  if (options.tls !== undefined) secureServer(server, options.tls);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  let closing: Promise<number> | undefined;

  function close(): Promise<number> {
    closing ??= (async () => {
      await gateway.stop(1_000);
      const bucket = { id: "default", guaranteed: RATE, burst: BURST, priority: 2, borrow: false };
      const { spent } = await createQuota(store, CLUSTER).inspect(bucket);
      await store.close();
      return spent;
    })();
    return closing;
  }

  return {
    port: (server.address() as AddressInfo).port,
    lines,
    limited() {
      const { counters } = gateway.report({ kind: "metrics" }) as MetricsReport;
      const { keys, values } = counters.ratelimit_transfers_limited_total ?? { keys: [], values: [] };
      return Object.fromEntries(keys.map((key, at) => [key.split("\x1f")[1]!, values[at]!]));
    },
    refill(tokens) {
      seconds += tokens / RATE;
    },
    charged: close,
    async stop() {
      await close();
    },
  };
}
