/** What this nginx tells of itself when it is asked: metrics under the names that the services use, and health. */
import { nowMs } from "./clock.js";
import { flushCounts, sharedCount } from "./counters.js";
import { luaString, luaTable, ngx } from "./ngx.js";
import { readNode } from "./records.js";
import { worker } from "./state.js";

function gauge(lines: string[], name: string, help: string): void {
  lines.push(`# HELP ${name} ${help}`);
  lines.push(`# TYPE ${name} gauge`);
}

function counter(lines: string[], name: string, help: string): void {
  lines.push(`# HELP ${name} ${help}`);
  lines.push(`# TYPE ${name} counter`);
}

function sample(lines: string[], name: string, labels: string, value: number): void {
  lines.push(luaString.format("%s{%s} %.17g", name, labels, value));
}

/** Other workers' counts are as of their last tick. */
export function metrics(): void {
  flushCounts();
  readNode();
  const { node, name } = worker;
  const lines: string[] = [];
  const nodeLabel = `node_id="${name}"`;
  counter(lines, "ratelimit_requests_allowed_total", "Requests that passed, on a dry run or not.");
  for (const app of worker.everyone) {
    sample(lines, "ratelimit_requests_allowed_total", `app_id="${app.policy.id}"`, sharedCount(app, "allowed"));
  }
  counter(lines, "ratelimit_requests_rejected_total", "Requests that were refused.");
  for (const app of worker.everyone) {
    sample(lines, "ratelimit_requests_rejected_total", `app_id="${app.policy.id}"`, sharedCount(app, "refused"));
  }
  counter(lines, "ratelimit_l3_hits_total", "Decisions made from the local lease or a remembered refusal.");
  for (const app of worker.everyone) {
    const hits = sharedCount(app, "local") + sharedCount(app, "remembered");
    sample(lines, "ratelimit_l3_hits_total", `app_id="${app.policy.id}"`, hits);
  }
  counter(lines, "ratelimit_l3_misses_total", "Decisions for which the local lease did not suffice.");
  for (const app of worker.everyone) {
    const misses = sharedCount(app, "remote") + sharedCount(app, "dark");
    sample(lines, "ratelimit_l3_misses_total", `app_id="${app.policy.id}"`, misses);
  }
  gauge(lines, "ratelimit_l3_tokens_local", "Tokens on the lease of a node; below zero where spent without the store.");
  for (const app of worker.everyone) {
    sample(lines, "ratelimit_l3_tokens_local", `app_id="${app.policy.id}",${nodeLabel}`, app.cell.get());
  }
  gauge(lines, "ratelimit_degradation_level", "How badly the store answers a node, from 0 to 3.");
  sample(lines, "ratelimit_degradation_level", nodeLabel, worker.level);
  gauge(lines, "ratelimit_node_emergency", "1 while this node knows of an emergency.");
  sample(lines, "ratelimit_node_emergency", nodeLabel, node.emergency ? 1 : 0);
  counter(lines, "ratelimit_node_syncs_total", "Messages of this node to the services.");
  sample(lines, "ratelimit_node_syncs_total", nodeLabel, node.syncs);
  counter(lines, "ratelimit_node_failed_syncs_total", "Those that no service answered.");
  sample(lines, "ratelimit_node_failed_syncs_total", nodeLabel, node.failures);
  gauge(lines, "ratelimit_config_info", "1 for the version of the configuration that is in force.");
  sample(lines, "ratelimit_config_info", `version="${worker.settings.configVersion}"`, 1);
  gauge(lines, "ratelimit_shared_memory_free_bytes", "Free pages of the shared dictionary.");
  sample(lines, "ratelimit_shared_memory_free_bytes", nodeLabel, worker.dict.free_space());
  ngx.header["Content-Type"] = "text/plain; version=0.0.4";
  ngx.print(`${luaTable.concat(lines, "\n")}\n`);
}

/** That this is answered at all is the answer. */
export function live(): void {
  ngx.header["Content-Type"] = "application/json";
  ngx.print('{"status":"healthy"}\n');
}

/** Later the policies of the apps decide what happens without a service; but a node that never had one has no tokens yet. */
export function ready(): void {
  readNode();
  const { node, settings, name, level } = worker;
  const isReady = node.lastContact > 0;
  if (!isReady) ngx.status = 503;
  ngx.header["Content-Type"] = "application/json";
  ngx.print(
    luaString.format(
      '{"ready":%s,"node":"%s","degradation":%d,"emergency":%s,"config_version":"%s","service_config_version":"%s","last_contact_ms":%d}\n',
      isReady ? "true" : "false",
      name,
      level,
      node.emergency ? "true" : "false",
      settings.configVersion,
      node.configVersion,
      isReady ? Math.max(nowMs() - node.lastContact, 0) : -1,
    ),
  );
}
