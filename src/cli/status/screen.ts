/** What `tollgate status` shows of one look: lines for a terminal of any width and height. */
import type { StatusReply } from "../../service/operations/contract/contract.js";
import { ago, counted, latency, percent, perSecond, span, whole } from "../numbers.js";
import { type Column, type Line, lengthOf, type Span, type Style, type Tone, tableLines, toned } from "../printing.js";
import { busiest, type Look, type Pace } from "./look.js";

export interface Screen {
  look: Look;
  pace: Pace;
  style: Style;
  /** Lines at most. */
  rows: number;
  mostApps: number;
}

/** Beyond so many, other things are worth a line, too. */
const ENOUGH_APPS = 5;

const levels = [
  "the store answers fast",
  "the store is slow",
  "the store is very slow: nobody waits for it",
  "no store",
];

/** With little room, the apps matter more than the numbers of the machine, and those of the service more than these. */
export function statusScreen({ look, pace, style, rows, mostApps }: Screen): Line[] {
  const { status } = look;
  const head = [headLine(status, style), ...stateLines(status), []];
  const numbers = [...numberLines(status, pace, style), []];
  const system = [...systemLines(status), []];
  const wanted = Math.min(look.appsTotal, mostApps, ENOUGH_APPS) + 2;
  const fitting = [
    [...head, ...numbers, ...system],
    [...head, ...numbers],
    [...head, summaryLine(pace), []],
  ];
  const shown = fitting.find((lines) => lines.length + wanted <= rows) ?? head;
  return [...shown, ...appLines(look, pace, style, { room: rows - shown.length, most: mostApps })].slice(0, rows);
}

function headLine(status: StatusReply, { columns }: Style): Line {
  const tones: Record<StatusReply["mode"], Tone> = { normal: "good", degraded: "warning", emergency: "bad" };
  const mode = status.status === "running" ? status.mode : status.status;
  const left: Line = [toned("strong", status.node_id), "  ", toned(tones[status.mode], mode)];
  const right = `tollgate ${status.version}, up ${span(status.uptime_seconds)}`;
  const wide = Math.min(columns, 100) - lengthOf(left) - right.length;
  return [...left, " ".repeat(Math.max(wide, 2)), toned("faint", right)];
}

/** What is out of the ordinary, first. */
function stateLines(status: StatusReply): Line[] {
  const lines: Line[] = [];
  const { source, seconds_left: left } = status.emergency;
  if (status.emergency_mode) {
    const by = source === "" ? "" : ` by ${source === "automatic" ? "itself" : source}`;
    const until = left > 0 ? `${span(left)} left` : "until it is turned off";
    lines.push([toned("bad", "emergency"), `${by}, ${until}: apps get what their priority leaves them`]);
  }
  const level = status.degradation_level;
  if (level > 0 || status.degradation_pinned_until !== null) {
    const pinned = status.degradation_pinned_until;
    const until =
      pinned === null ? "" : `, pinned for ${span((Date.parse(pinned) - Date.parse(status.timestamp)) / 1000)}`;
    lines.push([toned("warning", `level ${level}`), `: ${levels[level] ?? "degraded"}${until}`]);
  }
  const { connected_nodes: connected, cluster_nodes: nodes } = status.redis;
  if (connected === 0) lines.push([toned("bad", "store"), ": no server answers"]);
  else if (connected < nodes) lines.push([toned("bad", "store"), `: ${connected} of ${nodes} servers answer`]);
  return lines;
}

function numberLines(status: StatusReply, pace: Pace, style: Style): Line[] {
  const total = status.statistics;
  const or = (value: number | undefined, show: (value: number) => string) => (value === undefined ? "-" : show(value));
  const columns: Column[] = [
    { title: "" },
    { title: pace.isRecent ? "per second" : "mean/s", right: true },
    { title: "in all", right: true },
    { title: "", spare: 1 },
  ];
  const refused = (text: string, value: number): Span => (value > 0 ? toned("warning", text) : text);
  const rows: Span[][] = [
    ["requests", perSecond(pace.requests), whole(total.total_requests), ""],
    ["allowed", perSecond(pace.allowed), whole(total.allowed_requests), ""],
    [
      "refused",
      refused(perSecond(pace.refused), pace.isRecent ? pace.refused : 0),
      whole(total.rejected_requests),
      `${percent(total.rejection_rate)} of all requests`,
    ],
  ];
  if (total.dry_run_rejected > 0) {
    const note = "passed, as their apps are on a dry run";
    rows.push(["dry run", perSecond(pace.dryRunRefused), whole(total.dry_run_rejected), note]);
  }
  const all = total.total_requests === 0 ? undefined : total;
  rows.push(
    ["hit ratio", or(pace.hitRatio, percent), or(all?.l3_hit_ratio, percent), "decided without the store"],
    [
      "latency",
      or(pace.latencyMs, latency),
      or(all?.avg_latency_ms, latency),
      `of a decision; p99 ${or(all?.p99_latency_ms, latency)}`,
    ],
    ["syncs", perSecond(pace.syncs), whole(total.syncs), `${whole(total.failed_syncs)} failed`],
  );
  return tableLines(columns, rows, style);
}

function summaryLine(pace: Pace): Line {
  const parts = [`${perSecond(pace.requests)} requests/s`, `${perSecond(pace.refused)} refused/s`];
  if (pace.hitRatio !== undefined) parts.push(`hit ratio ${percent(pace.hitRatio)}`);
  if (pace.latencyMs !== undefined) parts.push(latency(pace.latencyMs));
  return [parts.join(", ")];
}

function systemLines(status: StatusReply): Line[] {
  const { redis, shared_memory } = status;
  const servers = `${redis.connected_nodes} of ${counted(redis.cluster_nodes, "server")}`;
  const calls = `${redis.active_connections} of ${redis.pool_size} calls`;
  const { used_mb: used, free_mb: free } = shared_memory.ratelimit;
  const facts = [
    ["store", redis.connected_nodes === 0 ? "no server answers" : `${servers}, ${calls} under way`],
    ["workers", `${status.workers}, memory ${whole(used)} of ${whole(used + free)} MB`],
    ["cluster", `${counted(status.live_nodes, "node")}, ${counted(status.connections, "open connection")} here`],
    ["config", status.config_version],
  ];
  return facts.map(([name = "", fact = ""]): Line => [toned("faint", name.padEnd(11)), fact]);
}

function appLines(look: Look, pace: Pace, style: Style, { room, most }: { room: number; most: number }): Line[] {
  if (look.apps.length === 0) return [[toned("faint", "no apps")]];
  const now = Date.parse(look.status.timestamp);
  const columns: Column[] = [
    { title: "busiest apps" },
    { title: "req/s", right: true },
    { title: "refused/s", right: true },
    { title: "tokens", right: true, spare: 2 },
    { title: "burst", right: true, spare: 4 },
    { title: "debt", right: true, spare: 3 },
    { title: "last refusal", spare: 1 },
  ];
  // One line is the heading's, and one tells of those that are not shown.
  const count = look.appsTotal > Math.min(most, room - 1) ? Math.min(most, room - 2) : look.appsTotal;
  const shown = busiest(look, pace).slice(0, Math.max(count, 0));
  const rows = shown.map((app): Span[] => {
    const { requests = 0, refused = 0 } = pace.apps.get(app.app_id) ?? {};
    const last = app.last_refusal;
    return [
      app.dry_run ? `${app.app_id} (dry run)` : app.app_id,
      perSecond(requests),
      refused > 0 && pace.isRecent ? toned("warning", perSecond(refused)) : perSecond(refused),
      known(app.l2_tokens),
      whole(app.burst),
      app.debt !== null && app.debt > 0 ? toned("warning", known(app.debt)) : known(app.debt),
      last === null ? "" : `${last.code}, ${ago(last.timestamp, now)}`,
    ];
  });
  const lines = tableLines(columns, rows, style);
  if (shown.length < look.appsTotal) lines.push([toned("faint", moreApps(look, shown.length))]);
  return lines.slice(0, Math.max(room, 0));
}

/** Null: the store does not answer. */
const known = (value: number | null) => (value === null ? "?" : whole(value));

function moreApps({ apps, appsTotal }: Look, shown: number): string {
  const more = `and ${whole(appsTotal - shown)} more: tollgate apps`;
  return apps.length < appsTotal ? `${more} (only the first ${whole(apps.length)} were looked at)` : more;
}

/** One look as one line, for logs and pipes. */
export function statusLine({ status }: Look, pace: Pace): string {
  const { connected_nodes: connected, cluster_nodes: nodes } = status.redis;
  const parts = [
    status.timestamp,
    status.status === "running" ? status.mode : status.status,
    `requests/s ${perSecond(pace.requests)}`,
    `refused/s ${perSecond(pace.refused)}`,
    `hit ${pace.hitRatio === undefined ? "-" : percent(pace.hitRatio)}`,
    `latency ${pace.latencyMs === undefined ? "-" : latency(pace.latencyMs)}`,
    `level ${status.degradation_level}`,
    `emergency ${status.emergency_mode ? "on" : "off"}`,
    `store ${connected}/${nodes}`,
    `workers ${status.workers}`,
    `config ${status.config_version}`,
  ];
  return parts.join("  ");
}
