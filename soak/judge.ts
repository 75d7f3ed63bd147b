/** Judges the history of a soak test: every window of every limit, slots, responses, ledgers, memory and files. */
import type { AppRules, Exchange, FaultRecord, Finding, History, ProcessSample } from "./history.js";
import { isExcused, judgeIsolation, RECOVERY_MS } from "./judge-isolation.js";

/** A store that answers slowly is noticed within this time, and so is its recovery. */
const NOTICE_MS = 3_000;
/** A client waits no longer for a response. */
export const CLIENT_TIMEOUT_MS = 15_000;
/** Sockets are counted in this interval. */
const SAMPLE_MS = 100;
/** A proxy that runs again closes the sockets without slots within this time. */
const CLOSING_MS = 3_000;
/** Growth between the second and the last third of the run. */
const MEMORY_GROWTH = { factor: 1.2, mb: 30 };
const FILE_GROWTH = { factor: 1.3, files: 60 };

export interface AppSummary {
  app: string;
  offered: number;
  admitted: number;
  refused: number;
  unavailable: number;
  failed: number;
  /** The largest part of what any window allowed that was used. */
  worstWindow: number;
}

export interface Verdict {
  passed: boolean;
  findings: Finding[];
  apps: AppSummary[];
}

export function judge(history: History): Verdict {
  const findings: Finding[] = [];
  const apps = Object.entries(history.rules).map(([app, rules]) => judgeWindows(app, rules, history, findings));
  judgeResponses(history, findings);
  judgeSockets(history, findings);
  judgeLedgers(history, findings);
  judgeProcesses(history.processes, history.durationMs, findings);
  findings.push(...judgeIsolation(history));
  for (const detail of history.errors) findings.push({ check: "errors", detail });
  return { passed: findings.length === 0, findings, apps };
}

interface Event {
  at: number;
  tokens: number;
  /** Tokens that windows with this instant may have in addition. */
  extra: number;
  latencyMs: number;
}

/**
 * The tokens of the fullest window that ends now, above rate × time, are known from those of the window that ended before.
 * A request was admitted at some time between its start and its end: a window may be longer by the longest of these times.
 * While the store is degraded, tokens are admitted without it at a rate of their own, with a burst of one second.
 */
function judgeWindows(app: string, rules: AppRules, history: History, findings: Finding[]): AppSummary {
  const own = history.exchanges.filter((exchange) => exchange.app === app);
  const admitted = own.filter(({ status }) => status === 200);
  const events: Event[] = [
    ...admitted.map(({ from, to }) => ({ at: to, tokens: 1, extra: 0, latencyMs: to - from })),
    ...extrasOf(rules, history),
  ];
  events.sort((a, b) => a.at - b.at || b.extra - a.extra);
  const { nodes, failOpenTokens } = history;
  const withoutStore = { open: failOpenTokens * nodes, local: rules.rate, closed: 0 }[rules.onStoreFailure];
  const degradedSeconds = degradedTime(history);
  let [level, latencyMs, last, worst, begin] = [0, 0, 0, 0, 0];
  let excess: string | undefined;
  for (const { at, tokens, extra, latencyMs: latency } of events) {
    const refill = ((at - last) / 1_000) * rules.rate + degradedSeconds(last, at) * withoutStore;
    level -= refill + extra;
    last = at;
    if (level <= 0) [level, latencyMs, begin] = [0, 0, at];
    level += tokens;
    latencyMs = Math.max(latencyMs, latency);
    const burst = rules.burst + (degradedSeconds(begin - 1_000, at) > 0 ? withoutStore : 0);
    const allowed = burst + (rules.rate * latencyMs) / 1_000 + 1e-6;
    worst = Math.max(worst, level / allowed);
    if (level > allowed) {
      const over = (level - allowed).toFixed(1);
      excess ??= `${app}: ${over} tokens too many between ${seconds(begin)} and ${seconds(at)}`;
    }
  }
  if (excess !== undefined) findings.push({ check: "windows", detail: excess });
  const count = (matches: (status: number) => boolean) => own.filter(({ status }) => matches(status)).length;
  return {
    app,
    offered: own.length,
    admitted: admitted.length,
    refused: count((status) => status === 429),
    unavailable: count((status) => status === 503),
    failed: count((status) => status !== 200 && status !== 429 && status !== 503),
    worstWindow: worst,
  };
}

/** What nodes lost or clocks added: see "What is not guaranteed" in docs/GUARANTEES.md. */
function extrasOf(rules: AppRules, { faults, unreportedTokens }: History): Event[] {
  const extra = (at: number, tokens: number): Event => ({ at, tokens: 0, extra: tokens, latencyMs: 0 });
  return faults.flatMap(({ lostNodes, refilled, from, to }) => {
    const tokens = lostNodes * Math.min(rules.burst, unreportedTokens) + (refilled ? rules.burst : 0);
    return tokens === 0 ? [] : [extra(from, tokens), extra(to, tokens)];
  });
}

/** Returns a function for the seconds between two instants in which requests may be decided without the store. */
function degradedTime({ faults, degradedAt, durationMs }: History): (from: number, to: number) => number {
  const total = [0];
  for (let at = 0; at <= durationMs + RECOVERY_MS; at += 1_000) {
    const isDegraded =
      faults.some(({ withoutStore, from, to }) => withoutStore && at >= from - 1_000 && at <= to + RECOVERY_MS) ||
      degradedAt.some((seen) => Math.abs(seen - at) <= NOTICE_MS);
    total.push(total.at(-1)! + (isDegraded ? 1 : 0));
  }
  const until = (at: number): number => {
    const second = Math.min(Math.max(at / 1_000, 0), total.length - 1);
    const whole = Math.floor(second);
    return total[whole]! + ((total[whole + 1] ?? total[whole]!) - total[whole]!) * (second - whole);
  };
  return (from, to) => until(to) - until(from);
}

const refusals = ["quota_exhausted", "cluster_exhausted"];
const outages = ["store_unavailable", "overloaded", "upstream_queue_full", "upstream_queue_timeout", "draining"];

function judgeResponses({ exchanges, faults }: History, findings: Finding[]): void {
  const problems = new Map<string, number>();
  const refused = exchanges.filter(({ status }) => status === 429);
  for (const exchange of exchanges) {
    const problem = exchange.status === 429 ? problemOfRefusal(exchange, faults, refused) : problemOf(exchange, faults);
    if (problem !== undefined) problems.set(problem, (problems.get(problem) ?? 0) + 1);
  }
  for (const [problem, count] of problems) findings.push({ check: "responses", detail: `${count} × ${problem}` });
}

/** Without the store, a node may only repeat a refusal that it got before, until the time in its Retry-After. */
function problemOfRefusal(refusal: Exchange, faults: FaultRecord[], refused: Exchange[]): string | undefined {
  const { reason, plane, app, from, to } = refusal;
  if (!refusals.includes(reason)) return `429 "${reason}" from ${plane}`;
  const outage = faults.find((fault) => from > fault.from + NOTICE_MS && to < fault.unavailableTo);
  if (outage === undefined) return undefined;
  const isRepeated = refused.some(
    (before) =>
      before.app === app &&
      before.plane === plane &&
      before.from <= outage.from + NOTICE_MS &&
      from <= before.to + before.retryAfterS * 1_000,
  );
  return isRepeated ? undefined : `429 from ${plane} while the store was unavailable`;
}

function problemOf({ status, reason, plane, from, to }: Exchange, faults: FaultRecord[]): string | undefined {
  if (status === 200) return undefined;
  if (status === 503 && outages.includes(reason)) return undefined;
  if (isExcused(plane, from, to, faults)) return undefined;
  return status === 0 ? `no response from ${plane} (${reason})` : `${status} "${reason}" from ${plane}`;
}

/**
 * A proxy that is stopped (SIGSTOP) keeps its sockets open while its slots expire; it closes them when it runs again. The slots
 * were last renewed up to a third of the lease before.
 */
function isStopped(faults: FaultRecord[], at: number, slotLeaseMs: number): boolean {
  return faults.some(
    ({ name, planes, from, to }) =>
      planes.length > 0 &&
      name.endsWith(" stopped") &&
      at >= from + (slotLeaseMs * 2) / 3 - SAMPLE_MS &&
      at <= to + CLOSING_MS,
  );
}

function judgeSockets(history: History, findings: Finding[]): void {
  const { faults, maxPerPod, slotLeaseMs, slotsAtEnd } = history;
  const sockets = history.sockets.filter(({ at }) => !isStopped(faults, at, slotLeaseMs));
  const most = sockets.reduce((max, { pods }) => Math.max(max, ...pods), 0);
  if (most > maxPerPod) findings.push({ check: "slots", detail: `${most} connections on a pod; limit ${maxPerPod}` });
  if (slotsAtEnd !== 0)
    findings.push({ check: "slots", detail: `${slotsAtEnd} slots without a connection at the end` });
}

/** The store counted what clients received, unless a killed node did not report it, or a client got no response. */
function judgeLedgers({ ledgers, rules, exchanges, faults, unreportedTokens }: History, findings: Finding[]): void {
  const add = (detail: string) => findings.push({ check: "ledgers", detail });
  const lostNodes = faults.reduce((sum, fault) => sum + fault.lostNodes, 0);
  for (const { app, tokens, held, spent } of ledgers) {
    const { burst } = rules[app]!;
    if (tokens + held > burst + 1e-6) add(`${app}: ${tokens} tokens and ${held} on leases; burst ${burst}`);
    if (held !== 0) add(`${app}: ${held} tokens on leases although all nodes but one have stopped`);
    const own = exchanges.filter((exchange) => exchange.app === app);
    const admitted = own.filter(({ status }) => status === 200).length;
    const unknown = own.filter(({ status }) => status !== 200 && status !== 429).length;
    const lost = lostNodes * Math.min(burst, unreportedTokens);
    if (spent > admitted + unknown)
      add(`${app}: ${spent} tokens charged for ${admitted} to ${admitted + unknown} requests`);
    if (spent < admitted - lost)
      add(`${app}: ${spent} tokens charged for ${admitted} requests; at most ${lost} were lost`);
  }
}

/** Compares the middle of the run with its end, for each process that lived through both. */
function judgeProcesses(samples: ProcessSample[], durationMs: number, findings: Finding[]): void {
  const names = new Set(samples.map(({ name }) => name));
  for (const name of names) {
    const own = samples.filter((sample) => sample.name === name);
    const part = (from: number, to: number) => own.filter(({ at }) => at >= durationMs * from && at < durationMs * to);
    const [middle, end] = [part(1 / 3, 2 / 3), part(2 / 3, 1)];
    if (middle.length < 10 || end.length < 10) continue;
    const [memoryBefore, memory] = [middle, end].map((list) => median(list.map(({ memoryMb }) => memoryMb)));
    const [filesBefore, files] = [middle, end].map((list) => median(list.map((sample) => sample.files)));
    if (memory! > memoryBefore! * MEMORY_GROWTH.factor + MEMORY_GROWTH.mb) {
      findings.push({
        check: "memory",
        detail: `${name} grew from ${memoryBefore!.toFixed(0)} to ${memory!.toFixed(0)} MB`,
      });
    }
    if (files! > filesBefore! * FILE_GROWTH.factor + FILE_GROWTH.files) {
      findings.push({ check: "files", detail: `${name} has ${files} open files, before ${filesBefore}` });
    }
  }
}

export function median(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`;
