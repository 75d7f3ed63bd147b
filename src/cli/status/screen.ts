/** The screen of `tollgate status`, for a terminal of any size. */
import type { StatusReply } from "../../service/operations/contract/contract.js";
import { ago, counted, latency, percent, perSecond, span, whole } from "../numbers.js";
import { type Column, type Line, lengthOf, type Span, type Style, type Tone, tableLines, toned } from "../printing.js";
import { busiest, type Rates, type Snapshot } from "./snapshot.js";

export interface Screen {
  snapshot: Snapshot;
  rates: Rates;
  style: Style;
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

/** In a small window, drops the system section first, then the counters. */
export function statusScreen({ snapshot, rates, style, rows, mostApps }: Screen): Line[] {
  const { status } = snapshot;
  const head = [headLine(status, style), ...stateLines(status), []];
  const numbers = [...numberLines(status, rates, style), []];
  const system = [...systemLines(status), []];
  const wanted = Math.min(snapshot.appsTotal, mostApps, MIN_APPS) + 2;
  const fitting = [
    [...head, ...numbers, ...system],
    [...head, ...numbers],
    [...head, summaryLine(rates), []],
  ];
  const shown = fitting.find((lines) => lines.length + wanted <= rows) ?? head;
  return [...shown, ...appLines(snapshot, rates, style, { lines: rows - shown.length, most: mostApps })].slice(0, rows);
}

function headLine(status: StatusReply, { columns }: Style): Line {
  const tones: Record<StatusReply["mode"], Tone> = { normal: "good", degraded: "warning", emergency: "bad" };
  const mode = status.status === "running" ? status.mode : status.status;
  const left: Line = [toned("strong", status.node_id), "  ", toned(tones[status.mode], mode)];
  const right = `tollgate ${status.version}, up ${span(status.uptime_seconds)}`;
  const wide = Math.min(columns, 100) - lengthOf(left) - right.length;
  return [...left, " ".repeat(Math.max(wide, 2)), toned("faint", right)];
}

/** Unusual states. */
function stateLines(status: StatusReply): Line[] {
  const lines: Line[] = [];
  const { source, seconds_left: left } = status.emergency;
  if (status.emergency_mode) {
    const by = source === "" ? "" : source === "automatic" ? ", automatic" : ` by ${source}`;
    const until = left > 0 ? `${span(left)} left` : "no end";
    lines.push([toned("bad", "emergency"), `${by}, ${until}: limits depend on the priority of the app`]);
  }
  const level = status.degradation_level;
  if (level > 0 || status.degradation_pinned_until !== null) {
    const pinned = status.degradation_pinned_until;
    const until =
      pinned === null ? "" : `, pinned for ${span((Date.parse(pinned) - Date.parse(status.timestamp)) / 1000)}`;
    lines.push([toned("warning", `level ${level}`), `: ${levels[level] ?? "degraded"}${until}`]);
  }
  const { connected_nodes: connected, cluster_nodes: nodes } = status.redis;
  if (connected === 0) lines.push([toned("bad", "store"), ": no server is connected"]);
  else if (connected < nodes) lines.push([toned("bad", "store"), `: ${connected} of ${nodes} servers are connected`]);
  return lines;
}

function numberLines(status: StatusReply, rates: Rates, style: Style): Line[] {
  const total = status.statistics;
  const or = (value: number | undefined, show: (value: number) => string) => (value === undefined ? "-" : show(value));
  const columns: Column[] = [
    { title: "" },
    { title: rates.isRecent ? "per second" : "mean/s", right: true },
    { title: "total", right: true },
    { title: "", spare: 1 },
  ];
  const refused = (text: string, value: number): Span => (value > 0 ? toned("warning", text) : text);
  const rows: Span[][] = [
    ["requests", perSecond(rates.requests), whole(total.total_requests), ""],
    ["allowed", perSecond(rates.allowed), whole(total.allowed_requests), ""],
    [
      "refused",
      refused(perSecond(rates.refused), rates.isRecent ? rates.refused : 0),
      whole(total.rejected_requests),
      `${percent(total.rejection_rate)} of all requests`,
    ],
  ];
  if (total.dry_run_rejected > 0) {
    const note = "refused in dry run, but admitted";
    rows.push(["dry run", perSecond(rates.dryRunRefused), whole(total.dry_run_rejected), note]);
  }
  const all = total.total_requests === 0 ? undefined : total;
  rows.push(
    ["hit ratio", or(rates.hitRatio, percent), or(all?.l3_hit_ratio, percent), "decided locally"],
    [
      "latency",
      or(rates.latencyMs, latency),
      or(all?.avg_latency_ms, latency),
      `of a decision; p99 ${or(all?.p99_latency_ms, latency)}`,
    ],
    ["syncs", perSecond(rates.syncs), whole(total.syncs), `${whole(total.failed_syncs)} failed`],
  );
  return tableLines(columns, rows, style);
}

function summaryLine(rates: Rates): Line {
  const parts = [`${perSecond(rates.requests)} requests/s`, `${perSecond(rates.refused)} refused/s`];
  if (rates.hitRatio !== undefined) parts.push(`hit ratio ${percent(rates.hitRatio)}`);
  if (rates.latencyMs !== undefined) parts.push(latency(rates.latencyMs));
  return [parts.join(", ")];
}

function systemLines(status: StatusReply): Line[] {
  const { redis, shared_memory } = status;
  const servers = `${redis.connected_nodes} of ${counted(redis.cluster_nodes, "server")}`;
  const calls = `${redis.active_connections} of ${redis.pool_size} calls`;
  const { used_mb: used, free_mb: free } = shared_memory.ratelimit;
  const facts = [
    ["store", redis.connected_nodes === 0 ? "no server is connected" : `${servers}, ${calls} in flight`],
    ["workers", `${status.workers}, memory ${whole(used)} of ${whole(used + free)} MB`],
    ["cluster", `${counted(status.live_nodes, "node")}, ${counted(status.connections, "open connection")} here`],
    ["config", status.config_version],
  ];
  return facts.map(([name = "", fact = ""]): Line => [toned("faint", name.padEnd(11)), fact]);
}

function appLines(
  snapshot: Snapshot,
  rates: Rates,
  style: Style,
  { lines: maxLines, most }: { lines: number; most: number },
): Line[] {
  if (snapshot.apps.length === 0) return [[toned("faint", "no apps")]];
  const now = Date.parse(snapshot.status.timestamp);
  const columns: Column[] = [
    { title: "busiest apps" },
    { title: "req/s", right: true },
    { title: "refused/s", right: true },
    { title: "tokens", right: true, spare: 2 },
    { title: "burst", right: true, spare: 4 },
    { title: "debt", right: true, spare: 3 },
    { title: "last refusal", spare: 1 },
  ];
  // Reserve lines for the heading and for the number of apps that are not shown.
  const count = snapshot.appsTotal > Math.min(most, maxLines - 1) ? Math.min(most, maxLines - 2) : snapshot.appsTotal;
  const shown = busiest(snapshot, rates).slice(0, Math.max(count, 0));
  const rows = shown.map((app): Span[] => {
    const { requests = 0, refused = 0 } = rates.apps.get(app.app_id) ?? {};
    const last = app.last_refusal;
    return [
      app.dry_run ? `${app.app_id} (dry run)` : app.app_id,
      perSecond(requests),
      refused > 0 && rates.isRecent ? toned("warning", perSecond(refused)) : perSecond(refused),
      known(app.l2_tokens),
      whole(app.burst),
      app.debt !== null && app.debt > 0 ? toned("warning", known(app.debt)) : known(app.debt),
      last === null ? "" : `${last.code}, ${ago(last.timestamp, now)}`,
    ];
  });
  const lines = tableLines(columns, rows, style);
  if (shown.length < snapshot.appsTotal) lines.push([toned("faint", moreApps(snapshot, shown.length))]);
  return lines.slice(0, Math.max(maxLines, 0));
}

/** Null: the store is unavailable. */
const known = (value: number | null) => (value === null ? "?" : whole(value));

function moreApps({ apps, appsTotal }: Snapshot, shown: number): string {
  const more = `and ${whole(appsTotal - shown)} more: tollgate apps`;
  return apps.length < appsTotal ? `${more} (only the first ${whole(apps.length)} were fetched)` : more;
}

/** A snapshot as one line, for logs and pipes. */
export function statusLine({ status }: Snapshot, rates: Rates): string {
  const { connected_nodes: connected, cluster_nodes: nodes } = status.redis;
  const parts = [
    status.timestamp,
    status.status === "running" ? status.mode : status.status,
    `requests/s ${perSecond(rates.requests)}`,
    `refused/s ${perSecond(rates.refused)}`,
    `hit ${rates.hitRatio === undefined ? "-" : percent(rates.hitRatio)}`,
    `latency ${rates.latencyMs === undefined ? "-" : latency(rates.latencyMs)}`,
    `level ${status.degradation_level}`,
    `emergency ${status.emergency_mode ? "on" : "off"}`,
    `store ${connected}/${nodes}`,
    `workers ${status.workers}`,
    `config ${status.config_version}`,
  ];
  return parts.join("  ");
}
