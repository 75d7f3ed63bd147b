/** File descriptors of this process: how many are open, and how many each kind of connection may use. */
import { readFileSync, statSync } from "node:fs";

/** Since Linux 6.2. 0 on other systems. */
export function openFiles(): number {
  try {
    return statSync("/proc/self/fd").size;
  } catch {
    return 0;
  }
}

/** 0 if there is no limit, or it is unknown. */
export function openFilesLimit(): number {
  try {
    return Number(/^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** Connections of a process by what they are for. The rest of the descriptors is for the store, files and pipes. */
export interface FileBudget {
  clients: number;
  upstreams: number;
  envoy: number;
  control: number;
}

/** The control listener is in another process than the others. */
export function fileBudget(limit = openFilesLimit()): FileBudget {
  const part = (share: number) => (limit === 0 ? Number.POSITIVE_INFINITY : Math.max(Math.floor(limit * share), 1));
  return { clients: part(3 / 8), upstreams: part(3 / 8), envoy: part(1 / 8), control: part(1 / 2) };
}
