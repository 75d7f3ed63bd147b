/** The screen of `tollgate status`, for a terminal of any size. */
import { ALL_APPS } from "../../core/keys.js";
import type { StatusReply } from "../../service/operations/contract/contract.js";
import { appCells, WOULD_REFUSE } from "../apps.js";
import { BURSTS_STOPPED } from "../emergency.js";
import { counted, latency, percent, perSecond, span, spanBetween, whole } from "../numbers.js";
import { escapedData, lengthOf, type Tone, tableLines, toned } from "../printing.js";
import { busiest, type Rates, type Snapshot } from "./snapshot.js";

export interface Screen {
  snapshot: Snapshot;
  rates: Rates;
  columns: number;
  /** Maximum number of lines. */
  rows: number;
  mostApps: number;
}

/** Minimum number of apps to show before other sections are dropped. */
const MIN_APPS = 5;

const levels = [
  "the store is fast",
  "the store is slow",
  "the store is very slow, requests do not wait for it",
  "the store is unavailable",
];

const or = (value: number | undefined, show: (value: number) => string) => (value === undefined ? "-" : show(value));
const modeOf = ({ status, mode }: StatusReply) => (status === "running" ? mode : status);

/** In a small window, drops the system section first, then the counters. */
export function statusScreen(screen: Screen): string[] {
  const { rates, columns, rows, mostApps } = screen;
  const snapshot = escapedData(screen.snapshot);
  const { status } = snapshot;
  const head = [headLine(status, columns), ...stateLines(status), ""];
  const numbers = [...numberLines(status, rates, columns), ""];
  const wanted = Math.min(snapshot.appsTotal, mostApps, MIN_APPS) + 2;
  const fitting = [
    [...head, ...numbers, ...systemLines(status), ""],
    [...head, ...numbers],
    [...head, summaryLine(rates), ""],
  ];
  const shown = fitting.find((lines) => lines.length + wanted <= rows) ?? head;
  return [...shown, ...appLines({ ...screen, snapshot, rows: rows - shown.length })].slice(0, rows);
}

function headLine(status: StatusReply, columns: number): string {
  const tones: Record<StatusReply["mode"], Tone> = { normal: "good", degraded: "warning", emergency: "bad" };
  const level = toned(status.degradation_level === 0 ? "faint" : "warning", `level ${status.degradation_level}`);
  const left = `${toned("strong", status.node_id)}  ${toned(tones[status.mode], modeOf(status))}  ${level}`;
  const right = `tollgate ${status.version}, up ${span(status.uptime_seconds)}`;
  const gap = Math.min(columns, 100) - lengthOf(left) - right.length;
  return `${left}${" ".repeat(Math.max(gap, 2))}${toned("faint", right)}`;
}

/** Unusual states. */
function stateLines(status: StatusReply): string[] {
  const lines: string[] = [];
  const { source, operator, reason, seconds_left: left } = status.emergency;
  if (!status.emergency_mode && status.emergency.bursts_stopped) lines.push(toned("warning", BURSTS_STOPPED));
  if (status.emergency_mode) {
    const by = source === "automatic" ? ", automatic" : ` by ${operator || "an operator"}`;
    const until = left > 0 ? `${span(left)} left` : "no end";
    lines.push(`${toned("bad", "emergency")}${by}, ${until}: limits depend on the priority of the app`);
    if (reason !== "") lines.push(`reason: ${reason}`);
  }
  const { degradation_level: level, degradation_pinned_until: pinned, timestamp } = status;
  if (level > 0 || pinned !== null) {
    const until = pinned === null ? "" : `, pinned for ${spanBetween(timestamp, pinned)}`;
    lines.push(`${toned("warning", `level ${level}`)}: ${levels[level] ?? "degraded"}${until}`);
  }
  const { connected_nodes: connected, cluster_nodes: nodes } = status.redis;
  if (connected === 0) lines.push(`${toned("bad", "store")}: no server is connected`);
  else if (connected < nodes) lines.push(`${toned("bad", "store")}: ${connected} of ${nodes} servers are connected`);
  return lines;
}

function numberLines(status: StatusReply, rates: Rates, columns: number): string[] {
  const total = status.statistics;
  const all = total.total_requests === 0 ? undefined : total;
  const refused = perSecond(rates.refused);
  const rows = [
    ["requests", perSecond(rates.requests), whole(total.total_requests)],
    ["allowed", perSecond(rates.allowed), whole(total.allowed_requests)],
    [
      "refused",
      rates.isRecent && rates.refused > 0 ? toned("warning", refused) : refused,
      whole(total.rejected_requests),
      `${percent(total.rejection_rate)} of all requests`,
    ],
    [
      "dry run",
      perSecond(rates.dryRunRefused),
      whole(total.dry_run_rejected),
      "would be refused without a dry run; counted as allowed",
    ],
    ["hit ratio", or(rates.hitRatio, percent), or(all?.l3_hit_ratio, percent), "decided locally"],
    [
      "latency",
      or(rates.latencyMs, latency),
      or(all?.avg_latency_ms, latency),
      `of a decision; p99 ${or(all?.p99_latency_ms, latency)}`,
    ],
    ["syncs", perSecond(rates.syncs), whole(total.syncs), `${whole(total.failed_syncs)} failed`],
  ].filter(([name]) => name !== "dry run" || total.dry_run_rejected > 0);
  const titles = [" ", rates.isRecent ? ">per second" : ">mean/s", ">total", ""];
  return tableLines(titles, rows, columns, { spare: [""] });
}

function summaryLine(rates: Rates): string {
  const parts = [`${perSecond(rates.requests)} requests/s`, `${perSecond(rates.refused)} refused/s`];
  if (rates.dryRunRefused > 0) parts.push(`${perSecond(rates.dryRunRefused)} would be refused/s`);
  if (rates.hitRatio !== undefined) parts.push(`hit ratio ${percent(rates.hitRatio)}`);
  if (rates.latencyMs !== undefined) parts.push(latency(rates.latencyMs));
  return parts.join(", ");
}

function systemLines(status: StatusReply): string[] {
  const { redis, shared_memory } = status;
  const servers = `${redis.connected_nodes} of ${counted(redis.cluster_nodes, "server")}`;
  const calls = `${redis.active_connections} of ${redis.pool_size} calls`;
  const { used_mb: used, free_mb: free } = shared_memory.ratelimit;
  const fact = (name: string, text: string) => `${toned("faint", name.padEnd(11))}${text}`;
  return [
    fact("store", redis.connected_nodes === 0 ? "no server is connected" : `${servers}, ${calls} in flight`),
    fact("workers", `${status.workers}, memory ${whole(used)} of ${whole(used + free)} MB`),
    fact("cluster", `${counted(status.live_nodes, "node")}, ${counted(status.connections, "client connection")} here`),
    ...shardLines(status).map((text) => fact("shards", text)),
    ...holdingLines(status).map(([name, text]) => fact(name, text)),
    fact("config", status.config_version),
  ];
}

/** Shards that do not reply, and how L1's rate is divided among the others. */
function shardLines({ shards }: StatusReply): string[] {
  if (shards.length === 0) return [];
  const missing = shards.filter(({ available }) => !available).map(({ shard }) => shard);
  const rates = shards.filter(({ available }) => available).map(({ rate }) => rate);
  const range =
    rates.length === 0 ? "" : `, ${whole(Math.min(...rates))} to ${whole(Math.max(...rates))} tokens/s each`;
  const state = missing.length === 0 ? "all available" : toned("bad", `unavailable: ${missing.join(", ")}`);
  return [`${shards.length}, ${state}${range}`];
}

const MOST_NODES = 8;

/** Tokens on the leases of each node, the largest first, and recalls in progress. */
function holdingLines({ nodes, recalls }: StatusReply): [string, string][] {
  const holding = nodes.filter(({ held }) => held > 0).sort((one, other) => other.held - one.held);
  const shown = holding.slice(0, MOST_NODES).map(({ node_id, held, alive }) => {
    const state = alive ? "" : toned("warning", " (dead)");
    return `${node_id.replace(/@.*/, "")} ${whole(held)}${state}`;
  });
  const more = holding.length > MOST_NODES ? [`${holding.length - MOST_NODES} more`] : [];
  const lines: [string, string][] = [["leases", [...shown, ...more].join(", ") || "no node holds tokens"]];
  if (recalls.length > 0)
    lines.push(["recalls", recalls.includes(ALL_APPS) ? "all apps" : recalls.slice(0, MOST_NODES).join(", ")]);
  return lines;
}

function appLines({ snapshot, rates, columns, rows: maxLines, mostApps }: Screen): string[] {
  const { apps, appsTotal, status } = snapshot;
  if (apps.length === 0) return [toned("faint", "no apps")];
  // Reserve lines for the heading and for the number of apps that are not shown.
  const count = appsTotal > Math.min(mostApps, maxLines - 1) ? Math.min(mostApps, maxLines - 2) : appsTotal;
  const shown = busiest(snapshot, rates).slice(0, Math.max(count, 0));
  const hasDryRun = shown.some((app) => app.dry_run_rejected > 0);
  const rows = shown.map((app) => {
    const { requests = 0, refused = 0, dryRunRefused = 0 } = rates.apps.get(app.app_id) ?? {};
    const { name, tokens, burst, debt, lastRefusal } = appCells(app, status.timestamp);
    const refusedText = perSecond(refused);
    const refusedCell = refused > 0 && rates.isRecent ? toned("warning", refusedText) : refusedText;
    const dryCell = hasDryRun ? [perSecond(dryRunRefused)] : [];
    return [name, perSecond(requests), refusedCell, ...dryCell, tokens, burst, debt, lastRefusal];
  });
  const dryTitle = hasDryRun ? [`${WOULD_REFUSE}/s`] : [];
  const titles = ["busiest apps", ">req/s", ">refused/s", ...dryTitle, ">tokens", ">burst", ">debt", "last refusal"];
  const spare = ["burst", "debt", "tokens", "last refusal", "would refuse/s"];
  const lines = tableLines(titles, rows, columns, { spare });
  const partly = apps.length < appsTotal ? ` (only the first ${whole(apps.length)} were fetched)` : "";
  const more = `and ${whole(appsTotal - shown.length)} more: tollgate apps${partly}`;
  if (shown.length < appsTotal) lines.push(toned("faint", more));
  return lines.slice(0, Math.max(maxLines, 0));
}

/** A snapshot as one line, for logs and pipes. */
export function statusLine(snapshot: Snapshot, rates: Rates): string {
  const { status } = escapedData(snapshot);
  const parts = [
    status.timestamp,
    modeOf(status),
    `requests/s ${perSecond(rates.requests)}`,
    `refused/s ${perSecond(rates.refused)}`,
    ...(status.statistics.dry_run_rejected > 0 ? [`would refuse/s ${perSecond(rates.dryRunRefused)}`] : []),
    `hit ${or(rates.hitRatio, percent)}`,
    `latency ${or(rates.latencyMs, latency)}`,
    `level ${status.degradation_level}`,
    `emergency ${status.emergency_mode ? "on" : "off"}`,
    `store ${status.redis.connected_nodes}/${status.redis.cluster_nodes}`,
    `workers ${status.workers}`,
    `config ${status.config_version}`,
  ];
  return parts.join("  ");
}
