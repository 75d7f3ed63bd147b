/** Watches processes, pods and the degradation level during a soak test. */
import { readdirSync } from "node:fs";
import { request } from "undici";
import { residentMb } from "../test/support/process-usage.js";
import type { History } from "./history.js";
import type { World } from "./world.js";

const SOCKETS_MS = 100;
const PROCESSES_MS = 1_000;

type Watched = Pick<History, "sockets" | "processes" | "degradedAt">;

export function startMonitor(world: World, now: () => number, history: Watched) {
  const sockets = setInterval(() => {
    history.sockets.push({ at: now(), pods: world.pods.map((pod) => pod.open()) });
  }, SOCKETS_MS);
  const processes = setInterval(() => {
    for (const [name, pid] of listed(world)) {
      const sample = usageOf(pid);
      if (sample !== undefined) history.processes.push({ at: now(), name, pid, ...sample });
    }
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
