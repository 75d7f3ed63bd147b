/** Judges what hostile tenants, planes and clients did to others: refusals, crashes, logs and WebSockets. */
import type { FaultRecord, Finding, History } from "./history.js";

/** After a fault, this long passes until the store is used as before. */
export const RECOVERY_MS = 8_000;
/** A process is watched in this interval. */
const SAMPLE_MS = 1_000;
/** Lines that clients can cause are throttled. */
const LOG_BYTES_PER_SECOND = 100_000;
/** Files that a service has in reserve. */
const MOST_FILES = 1_000;
const MOST_MB = 600;
/**
 * Without clients, a process keeps idle connections to backends, services and the store: Envoy as many as it needed at once, for
 * an hour. A leak per request, connection or fault would be hundreds to thousands.
 */
const RESTING_FILES = 64;
/** A hoarder that acts this long has all the sockets that it can get. */
const HOARDING_MS = 3_000;

/** The plane itself was killed, stopped or restarted. */
export function isExcused(plane: string, from: number, to: number, faults: FaultRecord[]): boolean {
  return faults.some(
    (fault) => fault.planes.includes(plane) && to >= fault.from - 500 && from <= fault.to + RECOVERY_MS,
  );
}

export function judgeIsolation(history: History): Finding[] {
  return [...refusals(history), ...crashes(history), ...usage(history), ...hoarded(history)];
}

function refusals({ exchanges, rules, faults }: History): Finding[] {
  const refused = exchanges.filter(
    ({ app, plane, status, from, to }) =>
      rules[app]?.isNeverRefused === true && status !== 200 && !isExcused(plane, from, to, faults),
  );
  const kinds = new Map<string, number[]>();
  for (const { app, plane, status, reason, from } of refused) {
    const kind = `${app}: ${status} "${reason}" from ${plane}`;
    kinds.set(kind, [...(kinds.get(kind) ?? []), from]);
  }
  return [...kinds].map(([kind, times]) => {
    const last = (times.at(-1)! / 1_000).toFixed(0);
    const detail = `${times.length} × ${kind}, at half of its limit, from ${(times[0]! / 1_000).toFixed(0)} to ${last} s`;
    return { check: "isolation", detail };
  });
}

/** A process with another pid than a second before, without a fault that explains it. */
function crashes({ processes, faults }: History): Finding[] {
  const findings: Finding[] = [];
  for (const name of new Set(processes.map((sample) => sample.name))) {
    const own = processes.filter((sample) => sample.name === name);
    const known = new Set<number>();
    for (const { at, pid } of own) {
      const before = own.findLast((sample) => sample.at < at);
      if (before !== undefined && !known.has(pid) && !isExplained(name, before.at, at, faults)) {
        findings.push({ check: "crashes", detail: `${name} was replaced at ${(at / 1_000).toFixed(0)} s` });
      }
      known.add(pid);
    }
  }
  return findings;
}

function isExplained(name: string, from: number, to: number, faults: FaultRecord[]): boolean {
  const overlaps = (fault: FaultRecord) => to >= fault.from - SAMPLE_MS && from <= fault.to + RECOVERY_MS;
  const causes = ({ name: fault, planes }: FaultRecord) =>
    name === "redis" ? fault === "Redis killed" : planes.some((plane) => name.startsWith(plane));
  return faults.some((fault) => overlaps(fault) && causes(fault));
}

function usage({ processes, logs, filesAtStart, filesAtEnd }: History): Finding[] {
  const findings: Finding[] = [];
  for (const [name, files] of Object.entries(filesAtEnd)) {
    const before = filesAtStart[name] ?? files;
    if (files > before + RESTING_FILES)
      findings.push({
        check: "files",
        detail: `${name} has ${files} open files without clients, ${before} at the start`,
      });
  }
  for (const name of new Set(processes.map((sample) => sample.name))) {
    const own = processes.filter((sample) => sample.name === name);
    const [files, mb] = [Math.max(...own.map((sample) => sample.files)), Math.max(...own.map((each) => each.memoryMb))];
    if (name.startsWith("service") && files > MOST_FILES)
      findings.push({ check: "files", detail: `${name} had ${files} open files` });
    if (mb > MOST_MB) findings.push({ check: "memory", detail: `${name} had ${mb.toFixed(0)} MB` });
  }
  for (const name of new Set(logs.map((sample) => sample.name))) {
    const most = Math.max(...logs.filter((sample) => sample.name === name).map(({ bytes }) => bytes));
    if (most > LOG_BYTES_PER_SECOND)
      findings.push({ check: "logs", detail: `${name} logged ${most} bytes in about a second` });
  }
  return findings;
}

/** Other clients still get WebSockets. */
function hoarded({ hostile, socketsOpenedAt, faults }: History): Finding[] {
  const hoarding = hostile.filter(({ hoardsSockets, from, to }) => hoardsSockets && to - from > 2 * HOARDING_MS);
  return hoarding.flatMap(({ name, from, to }) => {
    const isFaulty = faults.some((fault) => fault.from <= to && fault.to + RECOVERY_MS >= from);
    const opened = socketsOpenedAt.filter((at) => at >= from + HOARDING_MS && at <= to).length;
    if (isFaulty || opened > 0) return [];
    return [
      { check: "isolation", detail: `no WebSocket was opened while "${name}", at ${(from / 1_000).toFixed(0)} s` },
    ];
  });
}
