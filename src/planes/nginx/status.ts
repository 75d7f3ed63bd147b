/** The metrics page of this nginx, and the line about the node in sync messages. */
import { NOBODY, type Numbers, nodeText, numberOf, sumOf } from "../lua/counts.js";
import { luaString, luaTable } from "../lua/library.js";
import { countedIds, flushCounts, totalCounts } from "./http/counters.js";
import { readNode } from "./http/records.js";
import { ngx } from "./ngx.js";
import { metric } from "./page-lines.js";
import { heldConnections, socketLines } from "./sockets/status.js";
import { worker } from "./state.js";

function appLabel(id: string): string {
  return `app_id="${id === NOBODY ? "none" : id}"`;
}

/** The line about this node in sync messages. */
export function nodeLine(): string {
  const held = heldConnections();
  const connections = held === undefined ? "" : luaString.format(" connections=%d", held);
  const memory = luaString.format(" memory_free_bytes=%.0f", worker.dict.free_space());
  return `${nodeText(worker.node)}${memory}${connections}\n`;
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

/** Counters are as of the last sync. */
export function metrics(): void {
  flushCounts();
  readNode();
  const { node, name, dict, options } = worker;
  const lines: string[] = [];
  const own = `node_id="${name}"`;
  appLines(lines);
  const tokens = "Tokens on the lease of a node; negative if spent without the store.";
  const addTokens = metric(lines, "gauge", "ratelimit_l3_tokens_local", tokens);
  for (const { limits, cell } of worker.accounts) addTokens(`app_id="${limits.id}",${own}`, cell.get());
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
