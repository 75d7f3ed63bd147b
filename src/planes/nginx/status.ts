/** The metrics page of this nginx in the Prometheus text format, and what sync messages contain about connections. */
import { isLiftedByDryRun } from "../../core/refusals.js";
import { summaryOf } from "../../engine/node.js";
import { limitCountsId, limitRequests, NOBODY, type Numbers, numberOf, sumOf } from "../lua/counts.js";
import type { NodeDetails } from "../lua/host.js";
import { countedIds, flushCounts, totalCounts } from "../lua/http/counters.js";
import { readNode } from "../lua/http/records.js";
import { firstNode, worker } from "../lua/http/state.js";
import { valueCount } from "../lua/http/values.js";
import { luaString, luaTable } from "../lua/library.js";
import { hasLimits, limitRules } from "../lua/limit-matches.js";
import * as slots from "../lua/sockets/counters.js";
import { nowMs } from "./clock.js";
import { ngx } from "./ngx.js";
import { countHeld, heldOnPod } from "./sockets/held-counts.js";
import { type PodLimit, sockets } from "./sockets/state.js";
import { nginx } from "./state.js";

/** Pods in a message. Others are only on the page of this nginx. */
const MOST_POD_LINES = 200;
/** Minimum time between two lists of pods from one worker. */
const PODS_PAUSE_MS = 1000;
const podReport = { at: 0 };

type MetricType = "counter" | "gauge" | "histogram" | "untyped";

/** Describes a metric. The result adds its samples; the suffix is for the parts of a histogram. */
function metric(lines: string[], type: MetricType, name: string, help: string) {
  lines.push(`# HELP ${name} ${help}`);
  lines.push(`# TYPE ${name} ${type}`);
  return (labels: string, value: number, suffix = ""): void => {
    const series = labels === "" ? name + suffix : `${name}${suffix}{${labels}}`;
    lines.push(luaString.format("%s %.17g", series, value));
  };
}

function appLabel(id: string): string {
  return `app_id="${id === NOBODY ? "none" : id}"`;
}

/** What sync messages contain about the connections of this nginx. */
export function socketDetails(): NodeDetails {
  const held = heldConnections();
  return { fields: held === undefined ? "" : luaString.format(" connections=%d", held), lines: podLines() };
}

/** `#pods`, then one line per route and pod with connections; nothing if they were reported a moment ago. */
function podLines(): string {
  const now = nowMs();
  const elapsed = now - podReport.at;
  if (sockets.pods.length === 0 || (elapsed >= 0 && elapsed < PODS_PAUSE_MS)) return "";
  podReport.at = now;
  const lines: string[] = ["#pods\n"];
  for (const one of sockets.pods) {
    const held = heldOnPod(one);
    if (held > 0) lines.push(luaString.format("#pod %s %s %s %d\n", one.route, one.upstream, one.pod, held));
    if (lines.length > MOST_POD_LINES) break;
  }
  return luaTable.concat(lines);
}

function appLines(lines: string[]): void {
  const ids = countedIds();
  const counts: Numbers[] = [];
  for (const id of ids) counts.push(totalCounts(id));
  const perApp = (name: string, help: string, read: (numbers: Numbers) => number) => {
    const add = metric(lines, "counter", name, help);
    for (let i = 0; i < ids.length; i++) add(appLabel(ids[i]!), read(counts[i]!));
  };
  perApp("ratelimit_requests_allowed_total", "Requests that were admitted, including dry runs.", (numbers) =>
    sumOf(numbers, "allowed"),
  );
  perApp("ratelimit_requests_rejected_total", "Requests that were refused.", (numbers) => sumOf(numbers, "rejected"));
  perApp("ratelimit_l3_hits_total", "Decisions made from the local lease or a cached refusal.", (numbers) =>
    numberOf(numbers, "l3", 0),
  );
  perApp("ratelimit_l3_misses_total", "Decisions that the local lease could not make.", (numbers) =>
    numberOf(numbers, "l3", 1),
  );
}

const LIMIT_STATUSES: ("allowed" | "rejected" | "dry_run_rejected")[] = ["allowed", "rejected", "dry_run_rejected"];

/** Per limit, never per value. */
function limitLines(lines: string[]): void {
  if (!hasLimits()) return;
  const help = "Requests by limit of `limits`: allowed, rejected, or dry_run_rejected.";
  const add = metric(lines, "counter", "ratelimit_limit_requests_total", help);
  for (const { name } of limitRules()) {
    const numbers = totalCounts(limitCountsId(name));
    for (const status of LIMIT_STATUSES) add(`limit="${name}",status="${status}"`, limitRequests(numbers, status));
  }
  metric(
    lines,
    "gauge",
    "ratelimit_limit_values",
    "Values of limits with their own bucket in shared memory.",
  )("", valueCount());
}

/** Counters are as of the last sync. */
export function metrics(): void {
  flushCounts();
  for (const one of worker.nodes) readNode(one);
  const { name, dict, options } = worker;
  const node = summaryOf(firstNode());
  const lines: string[] = [];
  const own = `node_id="${name}"`;
  appLines(lines);
  limitLines(lines);
  const tokens = "Tokens on the lease of a node; negative if spent without the store.";
  const addTokens = metric(lines, "gauge", "ratelimit_l3_tokens_local", tokens);
  for (const { limits, cell } of worker.accounts)
    if (limits.fillSeconds === undefined) addTokens(`app_id="${limits.id}",${own}`, cell.get());
  const level = "Degradation level of the store as seen by a node, from 0 to 3.";
  metric(lines, "gauge", "ratelimit_degradation_level", level)(own, node.level);
  const emergency = "1 while this node knows of an emergency.";
  metric(lines, "gauge", "ratelimit_node_emergency", emergency)(own, node.emergency ? 1 : 0);
  metric(lines, "counter", "ratelimit_node_syncs_total", "Sync messages of this node.")(own, node.syncs);
  metric(lines, "counter", "ratelimit_node_failed_syncs_total", "Sync messages without a reply.")(own, node.failures);
  const version = "1 for the current version of the configuration.";
  metric(lines, "gauge", "ratelimit_config_info", version)(`version="${options.configVersion}"`, 1);
  const memory = "Free pages of the shared dictionary.";
  metric(lines, "gauge", "ratelimit_shared_memory_free_bytes", memory)(own, dict.free_space());
  socketLines(lines, name);
  ngx.header["Content-Type"] = "text/plain; version=0.0.4";
  ngx.print(`${luaTable.concat(lines, "\n")}\n`);
}

/** Undefined if no route has connections. */
function heldConnections(): number | undefined {
  return nginx.options.connections.routes.length === 0 ? undefined : countHeld(0);
}

/** Connection metrics, summed over the workers, under the names of the service's metrics. Nothing without such routes. */
function socketLines(lines: string[], node: string): void {
  const held = heldConnections();
  if (held === undefined) return;
  const { pods } = sockets;
  const active = "Open connections of this nginx. A gauge despite its name.";
  metric(lines, "untyped", "websocket_connections_active_total", active)("", held);
  const proxy = "Open connections of this nginx.";
  metric(lines, "gauge", "websocket_proxy_instance", proxy)(`proxy_id="${node}"`, held);
  const onPod = "Connections of this nginx on a route to a pod.";
  const addHeld = metric(lines, "gauge", "websocket_pod_connections", onPod);
  for (const one of pods) addHeld(podLabels(one), heldOnPod(one));
  const limit = "Connection limit of a route and pod, for all services together.";
  const addLimit = metric(lines, "gauge", "websocket_pod_limit", limit);
  for (const one of pods) addLimit(podLabels(one), one.limit);
  counted(lines, totalCounts(NOBODY));
}

function podLabels({ route, upstream, pod }: PodLimit): string {
  // The other labels have no characters that need an escape.
  const escaped = luaString.gsub(route, '[\\"]', "\\%0");
  return `route="${escaped}",upstream="${upstream}",pod="${pod}"`;
}

function counted(lines: string[], numbers: Numbers): void {
  let refused = 0;
  const addRefusals = metric(lines, "counter", "websocket_refusals_total", "Refused connections by reason.");
  for (const reason of slots.REFUSAL_REASONS) {
    const count = numberOf(numbers, slots.slotsRefused(reason), 0);
    refused = refused + count;
    addRefusals(`reason="${reason}"`, count);
  }
  const dryRun = "Connections that were admitted without a slot because of a dry run, by the reason of the refusal.";
  const addDryRun = metric(lines, "counter", "websocket_dry_run_refusals_total", dryRun);
  for (const reason of slots.REFUSAL_REASONS) {
    if (isLiftedByDryRun(reason)) addDryRun(`reason="${reason}"`, numberOf(numbers, slots.slotsDryRun(reason), 0));
  }
  const rejected = "Connections refused by this nginx.";
  metric(lines, "counter", "websocket_connections_rejected_total", rejected)("", refused);
  const add = metric(lines, "histogram", "websocket_acquire_seconds", "Duration of slot decisions.");
  let below = 0;
  for (let i = 0; i < slots.ASKED_BOUNDS_SECONDS.length; i++) {
    below = below + numberOf(numbers, slots.SLOTS_ASKED, i + 1);
    add(luaString.format('le="%g"', slots.ASKED_BOUNDS_SECONDS[i]!), below, "_bucket");
  }
  below = below + numberOf(numbers, slots.SLOTS_ASKED, slots.ASKED_BOUNDS_SECONDS.length + 1);
  add('le="+Inf"', below, "_bucket");
  add("", numberOf(numbers, slots.SLOTS_ASKED, 0) / 1000000, "_sum");
  add("", below, "_count");
  const lost = "Connections that had lost their lease when it was renewed.";
  metric(lines, "counter", "websocket_leases_lost_total", lost)("", numberOf(numbers, slots.SLOTS_LOST, 0));
  const got = "Connections that got a lease after it was lost, or after they were admitted without the store.";
  metric(lines, "counter", "websocket_leases_reclaimed_total", got)("", numberOf(numbers, slots.SLOTS_RECLAIMED, 0));
}
