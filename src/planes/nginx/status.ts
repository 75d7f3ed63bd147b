/** The metrics page of this nginx, and the line about the node in sync messages. */
import { NOBODY, sumOf } from "../lua/counts.js";
import { luaString, luaTable } from "../lua/library.js";
import { countedIds, flushCounts, totalCounts } from "./http/counters.js";
import { readNode } from "./http/records.js";
import { ngx } from "./ngx.js";
import { counter, gauge, sample } from "./page-lines.js";
import { heldConnections, socketLines } from "./sockets/status.js";
import { worker } from "./state.js";

function appLabel(id: string): string {
  return `app_id="${id === NOBODY ? "none" : id}"`;
}

function l3Of(id: string, place: number): number {
  const { l3 } = totalCounts(id).lists;
  return l3 === undefined ? 0 : (l3[place] ?? 0);
}

/** The state of this node, for the services: see docs/API.md. */
export function nodeLine(): string {
  const { node, dict } = worker;
  const held = heldConnections();
  return luaString.format(
    "#node level=%d emergency=%d syncs=%.0f failed_syncs=%.0f memory_free_bytes=%.0f%s\n",
    node.level,
    node.emergency ? 1 : 0,
    node.syncs,
    node.failures,
    dict.free_space(),
    held === undefined ? "" : luaString.format(" connections=%d", held),
  );
}

/** Counters are as of the last sync. */
export function metrics(): void {
  flushCounts();
  readNode();
  const { node, name } = worker;
  const lines: string[] = [];
  const nodeLabel = `node_id="${name}"`;
  const all = countedIds();
  counter(lines, "ratelimit_requests_allowed_total", "Requests that were admitted, including dry runs.");
  for (const id of all) {
    sample(lines, "ratelimit_requests_allowed_total", appLabel(id), sumOf(totalCounts(id), "allowed"));
  }
  counter(lines, "ratelimit_requests_rejected_total", "Requests that were refused.");
  for (const id of all) {
    sample(lines, "ratelimit_requests_rejected_total", appLabel(id), sumOf(totalCounts(id), "rejected"));
  }
  counter(lines, "ratelimit_l3_hits_total", "Decisions made from the local lease or a cached refusal.");
  for (const id of all) sample(lines, "ratelimit_l3_hits_total", appLabel(id), l3Of(id, 0));
  counter(lines, "ratelimit_l3_misses_total", "Decisions that the local lease could not make.");
  for (const id of all) sample(lines, "ratelimit_l3_misses_total", appLabel(id), l3Of(id, 1));
  gauge(lines, "ratelimit_l3_tokens_local", "Tokens on the lease of a node; negative if spent without the store.");
  for (const account of worker.accounts) {
    sample(lines, "ratelimit_l3_tokens_local", `app_id="${account.limits.id}",${nodeLabel}`, account.cell.get());
  }
  gauge(lines, "ratelimit_degradation_level", "Degradation level of the store as seen by a node, from 0 to 3.");
  sample(lines, "ratelimit_degradation_level", nodeLabel, node.level);
  gauge(lines, "ratelimit_node_emergency", "1 while this node knows of an emergency.");
  sample(lines, "ratelimit_node_emergency", nodeLabel, node.emergency ? 1 : 0);
  counter(lines, "ratelimit_node_syncs_total", "Sync messages of this node.");
  sample(lines, "ratelimit_node_syncs_total", nodeLabel, node.syncs);
  counter(lines, "ratelimit_node_failed_syncs_total", "Sync messages without a reply.");
  sample(lines, "ratelimit_node_failed_syncs_total", nodeLabel, node.failures);
  gauge(lines, "ratelimit_config_info", "1 for the current version of the configuration.");
  sample(lines, "ratelimit_config_info", `version="${worker.options.configVersion}"`, 1);
  gauge(lines, "ratelimit_shared_memory_free_bytes", "Free pages of the shared dictionary.");
  sample(lines, "ratelimit_shared_memory_free_bytes", nodeLabel, worker.dict.free_space());
  socketLines(lines, name);
  ngx.header["Content-Type"] = "text/plain; version=0.0.4";
  ngx.print(`${luaTable.concat(lines, "\n")}\n`);
}
