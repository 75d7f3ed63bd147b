/** What a process has used so far, from /proc. */
import { readFileSync } from "node:fs";

/** The kernel reports CPU time in hundredths of a second. */
const TICK_MS = 10;

/** Resident memory in MB. */
export function residentMb(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kilobytes) / 1_024;
}

/** CPU time of all threads, in user and kernel mode. */
export function cpuMs(pid: number): number {
  // The second field is the name of the program, in parentheses, and may contain spaces.
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}
