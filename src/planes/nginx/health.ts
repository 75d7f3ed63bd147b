/** The health of this nginx, for whoever routes to it and for whoever looks after it. */

import { luaString } from "../lua/library.js";
import { nowMs } from "./clock.js";
import { readNode } from "./http/records.js";
import { ngx } from "./ngx.js";
import { worker } from "./state.js";

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

const HEALTHY = "healthy";
const DEGRADED = "degraded";
/** A service is heard of every second at least. */
const LATE_MS = 5000;
/** Shared memory of which less is free is about to be too small. */
const SCARCE_MEMORY = 0.05;
const MIB = 1048576;

function healthOf(well: boolean): string {
  return well ? HEALTHY : DEGRADED;
}

/** How each part is. Without any answer of a service so far: 503. */
export function deep(): void {
  readNode();
  const { node, settings, name, level, dict } = worker;
  const known = node.lastContact > 0;
  const silentMs = known ? Math.max(nowMs() - node.lastContact, 0) : -1;
  const free = dict.free_space();
  const size = dict.capacity();
  const service = known ? healthOf(silentMs < LATE_MS && level === 0) : "unhealthy";
  const memory = healthOf(free >= size * SCARCE_MEMORY);
  const config = healthOf(!known || node.configVersion === settings.configVersion);
  let status = service;
  if (status === HEALTHY && (memory === DEGRADED || config === DEGRADED)) status = DEGRADED;
  if (!known) ngx.status = 503;
  const body = `{"status":"${status}","node_id":"${name}","components":{\
"nginx":{"status":"healthy","version":"${luaString.format("%d", ngx.config.nginx_version)}","workers":${luaString.format("%d", ngx.worker.count())}},\
"service":{"status":"${service}","last_contact_ms":${luaString.format("%d", silentMs)},"syncs":${luaString.format("%.0f", node.syncs)},"failed_syncs":${luaString.format("%.0f", node.failures)},"live_nodes":${luaString.format("%d", node.liveNodes)}},\
"shared_memory":{"status":"${memory}","ratelimit":{"capacity_mb":${luaString.format("%.2f", size / MIB)},"free_mb":${luaString.format("%.2f", free / MIB)}}},\
"config":{"status":"${config}","version":"${settings.configVersion}","service_version":"${node.configVersion}"}},\
"degradation_level":${luaString.format("%d", level)},"emergency_mode":${node.emergency ? "true" : "false"}}\n`;
  ngx.header["Content-Type"] = "application/json";
  ngx.print(body);
}
