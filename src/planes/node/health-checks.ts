/** Asks every target at intervals how it is, on a connection of its own, and tells the upstream what it heard. */
import { Client } from "undici";
import type { UpstreamOptions } from "./options.js";
import type { Target, Upstream } from "./upstream.js";

export interface HealthChecks {
  stop(): void;
}

type ActiveOptions = NonNullable<UpstreamOptions["active"]>;

export function startHealthChecks(upstream: Upstream, options: ActiveOptions): HealthChecks {
  const stops = upstream.targets.map((target) => watch(upstream, target, options));
  return {
    stop() {
      for (const stop of stops) stop();
    },
  };
}

function watch(
  upstream: Upstream,
  target: Target,
  { path, intervalMs = 2_000, timeoutMs = 1_000, healthyAfter = 2, unhealthyAfter = 2 }: ActiveOptions,
): () => void {
  // Not from the pool: a check that waits behind requests would call a busy target ill.
  const client = new Client(target.origin, {
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    connect: { timeout: timeoutMs },
  });
  let good = 0;
  let bad = 0;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;

  async function look(): Promise<void> {
    const well = await isWell(client, path);
    if (stopped) return;
    good = well ? good + 1 : 0;
    bad = well ? 0 : bad + 1;
    if (good >= healthyAfter) upstream.setFailing(target, false);
    if (bad >= unhealthyAfter) upstream.setFailing(target, true);
    timer = setTimeout(look, intervalMs);
    timer.unref();
  }
  void look();

  return () => {
    stopped = true;
    clearTimeout(timer);
    void client.destroy();
  };
}

/** Any way of not answering is an answer. */
async function isWell(client: Client, path: string): Promise<boolean> {
  try {
    const { statusCode, body } = await client.request({ method: "GET", path, headers: { "user-agent": "tollgate" } });
    await body.dump();
    return statusCode >= 200 && statusCode < 400;
  } catch {
    return false;
  }
}
