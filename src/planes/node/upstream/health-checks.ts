/** Asks every target at intervals how it is, on a connection of its own, and tells the upstream what it heard. */
import { Client } from "undici";
import type { UpstreamOptions } from "../../../config/options/proxy-options.js";
import type { Target, Upstream } from "./upstream.js";

type ActiveOptions = NonNullable<UpstreamOptions["active"]>;

export interface HealthChecks {
  /** From now on the targets of these are asked, and no others. Those that are asked in the same way go on with that. */
  follow(upstreams: Iterable<[Upstream, ActiveOptions | undefined]>): void;
  stop(): void;
}

interface Check {
  words: string;
  stop(): void;
}

export function createHealthChecks(): HealthChecks {
  let checks = new Map<Target, Check>();

  function follow(upstreams: Iterable<[Upstream, ActiveOptions | undefined]>): void {
    const before = checks;
    checks = new Map();
    for (const [upstream, options] of upstreams) {
      for (const target of upstream.targets) {
        const running = before.get(target);
        if (options === undefined) {
          // Nobody is left to say that it is well again.
          upstream.setFailing(target, false);
          continue;
        }
        const words = `${upstream.name} ${JSON.stringify(options)}`;
        if (running?.words === words) {
          before.delete(target);
          checks.set(target, running);
        } else checks.set(target, { words, stop: watch(upstream, target, options) });
      }
    }
    for (const { stop } of before.values()) stop();
  }

  return { follow, stop: () => follow([]) };
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
