/** CPU time of processes, summed over their threads. */
import { readdirSync, readFileSync } from "node:fs";

/** Nanoseconds, without threads that have ended. */
export function cpuNs(pids: readonly number[]): number {
  return pids.flatMap(threadsOf).reduce((total, file) => total + Number(readFileSync(file, "utf8").split(" ")[0]), 0);
}

function threadsOf(pid: number): string[] {
  return readdirSync(`/proc/${pid}/task`).map((thread) => `/proc/${pid}/task/${thread}/schedstat`);
}
