/** Connection metrics of this nginx, summed over its workers, under the names of the service's metrics. */
import type { Numbers } from "../../lua/counts.js";
import { NOBODY } from "../../lua/counts.js";
import { luaString } from "../../lua/library.js";
import { totalCounts } from "../http/counters.js";
import { counter, gauge, histogram, sample, untyped } from "../page-lines.js";
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

const ACTIVE = "websocket_connections_active_total";
const REJECTED = "websocket_connections_rejected_total";
const PROXY = "websocket_proxy_instance";
const ON_POD = "websocket_pod_connections";
const POD_LIMIT = "websocket_pod_limit";
const REFUSALS = "websocket_refusals_total";
const ACQUIRE = "websocket_acquire_seconds";
const LOST = "websocket_leases_lost_total";
const RECLAIMED = "websocket_leases_reclaimed_total";

/** Undefined if no route has connections. */
export function heldConnections(): number | undefined {
  return worker.options.connections.routes.length === 0 ? undefined : heldCounts.addTotal(0);
}

function numberOf(numbers: Numbers, name: string, place: number): number {
  const list = numbers.lists[name];
  return list === undefined ? 0 : (list[place] ?? 0);
}

/** Adds nothing if no route has connections. */
export function socketLines(lines: string[], node: string): void {
  const held = heldConnections();
  if (held === undefined) return;
  const { pods } = sockets;
  untyped(lines, ACTIVE, "Open connections of this nginx. A gauge despite its name.");
  sample(lines, ACTIVE, "", held);
  gauge(lines, PROXY, "Open connections of this nginx.");
  sample(lines, PROXY, `proxy_id="${node}"`, held);
  gauge(lines, ON_POD, "Connections of this nginx to a pod.");
  for (const one of pods) sample(lines, ON_POD, podLabels(one), heldCounts.addPod(one.pod, 0));
  gauge(lines, POD_LIMIT, "Connection limit of a pod, for all services together.");
  for (const one of pods) sample(lines, POD_LIMIT, podLabels(one), one.limit);
  counted(lines, totalCounts(NOBODY));
}

function podLabels({ upstream, pod }: PodLimit): string {
  return `upstream="${upstream}",pod="${pod}"`;
}

function counted(lines: string[], numbers: Numbers): void {
  let refused = 0;
  counter(lines, REFUSALS, "Refused connections by reason.");
  for (const reason of REFUSAL_REASONS) {
    const count = numberOf(numbers, slotsRefused(reason), 0);
    refused = refused + count;
    sample(lines, REFUSALS, `reason="${reason}"`, count);
  }
  counter(lines, REJECTED, "Connections refused by this nginx.");
  sample(lines, REJECTED, "", refused);
  histogram(lines, ACQUIRE, "Duration of slot decisions.");
  let below = 0;
  for (let i = 0; i < ASKED_BOUNDS_SECONDS.length; i++) {
    below = below + numberOf(numbers, SLOTS_ASKED, i + 1);
    sample(lines, `${ACQUIRE}_bucket`, luaString.format('le="%g"', ASKED_BOUNDS_SECONDS[i]!), below);
  }
  below = below + numberOf(numbers, SLOTS_ASKED, ASKED_BOUNDS_SECONDS.length + 1);
  sample(lines, `${ACQUIRE}_bucket`, 'le="+Inf"', below);
  sample(lines, `${ACQUIRE}_sum`, "", numberOf(numbers, SLOTS_ASKED, 0) / 1000000);
  sample(lines, `${ACQUIRE}_count`, "", below);
  counter(lines, LOST, "Connections that had lost their lease when it was renewed.");
  sample(lines, LOST, "", numberOf(numbers, SLOTS_LOST, 0));
  counter(
    lines,
    RECLAIMED,
    "Connections that got a lease after it was lost, or after they were admitted without the store.",
  );
  sample(lines, RECLAIMED, "", numberOf(numbers, SLOTS_RECLAIMED, 0));
}
