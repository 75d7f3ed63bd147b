/** Health endpoints of this nginx. */
import { summaryOf } from "../../engine/node.js";
import { readNode } from "../lua/http/records.js";
import { firstNode, worker } from "../lua/http/state.js";
import { luaString } from "../lua/library.js";
import { nowMs } from "./clock.js";
import { ngx } from "./ngx.js";
import { areFilesEnough, openFiles } from "./open-files.js";
import { nginx } from "./state.js";

function currentState() {
  for (const node of worker.nodes) readNode(node);
  return summaryOf(firstNode());
}

function send(body: string): void {
  ngx.header["Content-Type"] = "application/json";
  ngx.print(body);
}

export function live(): void {
  send('{"status":"healthy"}\n');
}

/** Ready after the first reply of a service: before it, the node has no tokens. */
export function ready(): void {
  const { options, name } = worker;
  const node = currentState();
  const isReady = node.lastContact > 0;
  if (!isReady) ngx.status = 503;
  send(
    luaString.format(
      '{"ready":%s,"node":"%s","degradation":%d,"emergency":%s,"config_version":"%s","service_config_version":"%s","last_contact_ms":%d}\n',
      isReady ? "true" : "false",
      name,
      node.level,
      node.emergency ? "true" : "false",
      options.configVersion,
      firstNode().configVersion,
      isReady ? Math.max(nowMs() - node.lastContact, 0) : -1,
    ),
  );
}

const HEALTHY = "healthy";
const DEGRADED = "degraded";
/** Maximum time since the last reply. Messages are sent at least every second. */
const LATE_MS = 5000;
/** Minimum free fraction of the shared memory. */
const SCARCE_MEMORY = 0.05;
const MIB = 1048576;

function healthOf(well: boolean): string {
  return well ? HEALTHY : DEGRADED;
}

/** The state of each component; 503 before the first reply of a service. */
export function deep(): void {
  const { options, name, dict } = worker;
  const node = currentState();
  const { level } = node;
  const known = node.lastContact > 0;
  const silentMs = known ? Math.max(nowMs() - node.lastContact, 0) : -1;
  const free = dict.free_space();
  const size = dict.capacity();
  const service = known ? healthOf(silentMs < LATE_MS && level === 0) : "unhealthy";
  const memory = healthOf(free >= size * SCARCE_MEMORY);
  const config = healthOf(!known || firstNode().configVersion === options.configVersion);
  const files = healthOf(areFilesEnough());
  let status = service;
  if (status === HEALTHY && (memory === DEGRADED || config === DEGRADED || files === DEGRADED)) status = DEGRADED;
  if (!known) ngx.status = 503;
  send(`{"status":"${status}","node_id":"${name}","components":{\
"nginx":{"status":"healthy","version":"${luaString.format("%d", ngx.config.nginx_version)}","workers":${luaString.format("%d", ngx.worker.count())}},\
"service":{"status":"${service}","last_contact_ms":${luaString.format("%d", silentMs)},"syncs":${luaString.format("%.0f", node.syncs)},"failed_syncs":${luaString.format("%.0f", node.failures)},"live_nodes":${luaString.format("%d", node.liveNodes)}},\
"shared_memory":{"status":"${memory}","ratelimit":{"capacity_mb":${luaString.format("%.2f", size / MIB)},"free_mb":${luaString.format("%.2f", free / MIB)}}},\
"open_files":{"status":"${files}","permitted":${luaString.format("%.0f", openFiles.permitted)},"needed":${luaString.format("%.0f", nginx.options.openFiles)}},\
"config":{"status":"${config}","version":"${options.configVersion}","service_version":"${firstNode().configVersion}"}},\
"degradation_level":${luaString.format("%d", level)},"emergency_mode":${node.emergency ? "true" : "false"}}\n`);
}
