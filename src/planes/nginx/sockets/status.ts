/** Connection metrics of this nginx, summed over its workers, under the names of the service's metrics. */
import { ALL_CONNECTIONS, podCountKey } from "../../../engine/slots/without-store.js";
import { NOBODY, type Numbers, numberOf } from "../../lua/counts.js";
import { luaString } from "../../lua/library.js";
import { totalCounts } from "../http/counters.js";
import { metric } from "../page-lines.js";
import { worker } from "../state.js";
import {
  ASKED_BOUNDS_SECONDS,
  REFUSAL_REASONS,
  SLOTS_ASKED,
  SLOTS_LOST,
  SLOTS_RECLAIMED,
  slotsRefused,
} from "./counters.js";
import { heldCounts } from "./held-counts.js";
import { type PodLimit, sockets } from "./state.js";

/** Undefined if no route has connections. */
export function heldConnections(): number | undefined {
  return worker.options.connections.routes.length === 0 ? undefined : heldCounts.add(ALL_CONNECTIONS, 0);
}

/** Adds nothing if no route has connections. */
export function socketLines(lines: string[], node: string): void {
  const held = heldConnections();
  if (held === undefined) return;
  const { pods } = sockets;
  const active = "Open connections of this nginx. A gauge despite its name.";
  metric(lines, "untyped", "websocket_connections_active_total", active)("", held);
  const proxy = "Open connections of this nginx.";
  metric(lines, "gauge", "websocket_proxy_instance", proxy)(`proxy_id="${node}"`, held);
  const addHeld = metric(lines, "gauge", "websocket_pod_connections", "Connections of this nginx to a pod.");
  for (const one of pods) addHeld(podLabels(one), heldCounts.add(podCountKey(one.pod), 0));
  const limit = "Connection limit of a pod, for all services together.";
  const addLimit = metric(lines, "gauge", "websocket_pod_limit", limit);
  for (const one of pods) addLimit(podLabels(one), one.limit);
  counted(lines, totalCounts(NOBODY));
}

function podLabels({ upstream, pod }: PodLimit): string {
  return `upstream="${upstream}",pod="${pod}"`;
}

function counted(lines: string[], numbers: Numbers): void {
  let refused = 0;
  const addRefusals = metric(lines, "counter", "websocket_refusals_total", "Refused connections by reason.");
  for (const reason of REFUSAL_REASONS) {
    const count = numberOf(numbers, slotsRefused(reason), 0);
    refused = refused + count;
    addRefusals(`reason="${reason}"`, count);
  }
  const rejected = "Connections refused by this nginx.";
  metric(lines, "counter", "websocket_connections_rejected_total", rejected)("", refused);
  const add = metric(lines, "histogram", "websocket_acquire_seconds", "Duration of slot decisions.");
  let below = 0;
  for (let i = 0; i < ASKED_BOUNDS_SECONDS.length; i++) {
    below = below + numberOf(numbers, SLOTS_ASKED, i + 1);
    add(luaString.format('le="%g"', ASKED_BOUNDS_SECONDS[i]!), below, "_bucket");
  }
  below = below + numberOf(numbers, SLOTS_ASKED, ASKED_BOUNDS_SECONDS.length + 1);
  add('le="+Inf"', below, "_bucket");
  add("", numberOf(numbers, SLOTS_ASKED, 0) / 1000000, "_sum");
  add("", below, "_count");
  const lost = "Connections that had lost their lease when it was renewed.";
  metric(lines, "counter", "websocket_leases_lost_total", lost)("", numberOf(numbers, SLOTS_LOST, 0));
  const got = "Connections that got a lease after it was lost, or after they were admitted without the store.";
  metric(lines, "counter", "websocket_leases_reclaimed_total", got)("", numberOf(numbers, SLOTS_RECLAIMED, 0));
}
