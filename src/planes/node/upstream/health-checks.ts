/** Active health checks: requests each target periodically on a separate connection. */
import { Client } from "undici";
import { defaultUpstream, type UpstreamOptions } from "../../../config/options/proxy.js";
import { backendConnector } from "./backend-socket.js";
import type { Target, Upstream } from "./upstream.js";

type ActiveOptions = NonNullable<UpstreamOptions["active"]>;

export function createHealthChecks() {
  let checks = new Map<Target, { key: string; stop(): void }>();

  /** Checks the targets of these upstreams only. Unchanged checks continue. */
  function follow(upstreams: Iterable<[Upstream, ActiveOptions | undefined]>): void {
    const before = checks;
    checks = new Map();
    for (const [upstream, options] of upstreams) {
      for (const target of upstream.targets) {
        const running = before.get(target);
        if (options === undefined) {
          // No check would reset it.
          upstream.setFailing(target, false);
          continue;
        }
        const key = `${upstream.name} ${JSON.stringify(options)}`;
        if (running?.key === key) {
          before.delete(target);
          checks.set(target, running);
        } else checks.set(target, { key, stop: watch(upstream, target, options) });
      }
    }
    for (const { stop } of before.values()) stop();
  }

  return { follow, stop: () => follow([]) };
}

function watch(upstream: Upstream, target: Target, options: ActiveOptions): () => void {
  const { path, intervalMs, timeoutMs, healthyAfter, unhealthyAfter } = { ...defaultUpstream.active, ...options };
  // Not from the pool: a check queued behind requests would time out on a busy target.
  const client = new Client(target.origin, {
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    connect: backendConnector(timeoutMs, target.tls),
  });
  let good = 0;
  let bad = 0;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;

  async function check(): Promise<void> {
    const healthy = await isHealthy(client, path);
    if (stopped) return;
    good = healthy ? good + 1 : 0;
    bad = healthy ? 0 : bad + 1;
    if (good >= healthyAfter) upstream.setFailing(target, false);
    if (bad >= unhealthyAfter) upstream.setFailing(target, true);
    timer = setTimeout(check, intervalMs);
    timer.unref();
  }
  void check();

  return () => {
    stopped = true;
    clearTimeout(timer);
    void client.destroy();
  };
}

async function isHealthy(client: Client, path: string): Promise<boolean> {
  try {
    const { statusCode, body } = await client.request({ method: "GET", path, headers: { "user-agent": "tollgate" } });
    await body.dump();
    return statusCode >= 200 && statusCode < 400;
  } catch {
    return false;
  }
}
