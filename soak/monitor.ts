/** Watches processes, pods and the degradation level during a soak test. */
import { readdirSync } from "node:fs";
import { request } from "undici";
import { appKey, clusterKey } from "../src/core/keys.js";
import { residentMb } from "../test/support/process-usage.js";
import type { History } from "./history.js";
import { CLUSTER, HOSTILE_APP, rules, SOCKET_APP, type World } from "./world.js";

const SOCKETS_MS = 100;
const PROCESSES_MS = 1_000;

type Watched = Pick<History, "sockets" | "processes" | "degradedAt" | "logs" | "buckets">;

export function startMonitor(world: World, now: () => number, history: Watched) {
  const sockets = setInterval(() => {
    history.sockets.push({ at: now(), pods: world.pods.map((pod) => pod.open()) });
  }, SOCKETS_MS);
  const logged = new Map<number, number>();
  const processes = setInterval(() => {
    for (const i of [0, 1]) {
      const { pid, output } = world.service(i);
      const size = output().length;
      history.logs.push({ at: now(), name: `service ${i}`, bytes: size - (logged.get(pid) ?? 0) });
      logged.set(pid, size);
    }
    for (const [name, pid] of listed(world)) {
      const sample = usageOf(pid);
      if (sample !== undefined) history.processes.push({ at: now(), name, pid, ...sample });
    }
    void bucketsOf(world).then((hashes) => history.buckets.push({ at: now(), hashes }));
    for (const url of world.controlUrls()) {
      void isDegraded(url).then((degraded) => {
        if (degraded) history.degradedAt.push(now());
      });
    }
  }, PROCESSES_MS);
  return {
    stop(): void {
      clearInterval(sockets);
      clearInterval(processes);
    },
  };
}

/** Open files of all processes, by name. */
export function openFiles(world: World): Record<string, number> {
  const files: Record<string, number> = {};
  for (const [name, pid] of listed(world)) {
    const sample = usageOf(pid);
    if (sample !== undefined) files[name] = Math.max(files[name] ?? 0, sample.files);
  }
  return files;
}

const SHARD = `${CLUSTER.id}/0`;

/** Empty while Redis does not reply. */
async function bucketsOf({ redis }: World): Promise<Record<string, unknown>> {
  const apps = [...Object.keys(rules), SOCKET_APP, HOSTILE_APP, "default"];
  const hashes: Record<string, unknown> = {};
  for (const [name, key] of [["cluster", clusterKey(SHARD)], ...apps.map((app) => [app, appKey(SHARD, app)])]) {
    hashes[name!] = await redis.command("HGETALL", key!).catch(() => []);
  }
  return hashes;
}

/** A process may end between two looks. */
function listed(world: World): [string, number][] {
  try {
    return world.processes();
  } catch {
    return [];
  }
}

function usageOf(pid: number): { memoryMb: number; files: number } | undefined {
  try {
    const memoryMb = residentMb(pid);
    // A process that has ended, but is still listed, has no memory.
    return Number.isNaN(memoryMb) ? undefined : { memoryMb, files: readdirSync(`/proc/${pid}/fd`).length };
  } catch {
    return undefined;
  }
}

/** Whether a node that this service knows is at a higher level than 0, or the service does not reply. */
async function isDegraded(controlUrl: string): Promise<boolean> {
  try {
    const { body } = await request(`${controlUrl}/metrics`, { headersTimeout: 2_000, bodyTimeout: 2_000 });
    return /^ratelimit_degradation_level\{[^}]*\} [1-9]/m.test(await body.text());
  } catch {
    return true;
  }
}
