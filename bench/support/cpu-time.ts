/** How long processes have had a processor, all their threads together. */
import { readdirSync, readFileSync } from "node:fs";

/** Nanoseconds. Threads that have ended are not counted any more. */
export function cpuNs(pids: readonly number[]): number {
  return pids.flatMap(threadsOf).reduce((total, file) => total + Number(readFileSync(file, "utf8").split(" ")[0]), 0);
}

function threadsOf(pid: number): string[] {
  return readdirSync(`/proc/${pid}/task`).map((thread) => `/proc/${pid}/task/${thread}/schedstat`);
}
