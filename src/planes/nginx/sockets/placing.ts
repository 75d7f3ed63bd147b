/** Admission of an upgrade: takes a slot after its price is paid, and sends the request to the pod of the slot. */
import type { NginxSocketRoute } from "../../../config/options/plane-options.js";
import { STORE_UNAVAILABLE } from "../../../core/codes.js";
import { connectionRefusal, connectionRetryAfter, isLiftedByDryRun } from "../../../core/refusals.js";
import { DRY_RUN_HEADER, dryRunText } from "../../../core/response-headers.js";
import { knownNodes } from "../../../engine/node.js";
import { NOT_CONFIGURED } from "../../../engine/slots/contact.js";
import { appendHeld } from "../../../engine/slots/held.js";
import {
  candidatePods,
  NO_CONNECTIONS,
  newSlotAdmission,
  type SlotAdmission,
} from "../../../engine/slots/slot-admission.js";
import {
  type PlacementWithoutStore,
  placeWithoutStore,
  refusalWithoutStore,
} from "../../../engine/slots/without-store.js";
import type { Exchange } from "../../lua/http/exchanges.js";
import { firstNode, worker } from "../../lua/http/state.js";
import { luaMath } from "../../lua/library.js";
import { askForSlot, newConnection } from "../../lua/sockets/asking.js";
import { countSlotDecision, countSlotRefusal } from "../../lua/sockets/counters.js";
import { isDown, podFailed } from "../../lua/sockets/pods.js";
import { slotHome } from "../../lua/sockets/state.js";
import { nowMs } from "../clock.js";
import { refuseHead, sendRefusal } from "../http/response.js";
import { ngx } from "../ngx.js";
import { currentClient, currentSocket } from "./client-socket.js";
import { endConnection } from "./end.js";
import { ofLastPod } from "./pods.js";
import { register } from "./registry.js";
import { callSoon, holdSlotless } from "./renewal.js";
import { type NginxSlot, type SocketRoute, sockets } from "./state.js";

/** In the access phase. Returns if the request may go to its pod; otherwise it is refused here. */
export function placeSocket(exchange: Exchange, on: SocketRoute, protocols: string): void {
  const route = on.options;
  const failed = sockets.byExchange[exchange.id];
  if (failed !== undefined) giveUpPod(route, failed);
  const pods = candidatePods(route.pods, slotHome.turn, failed === undefined ? "" : failed.pod, isDown);
  slotHome.turn = slotHome.turn + 1;
  if (pods.length === 0) {
    if (failed !== undefined) refuseUnreachable();
    refuseHead("no_target");
  }
  const slot = newSlot(exchange.account.limits.id, currentClient(), on);
  sockets.byExchange[exchange.id] = slot;
  const started = nowMs();
  const admission = newSlotAdmission(slot.app, pods, started, worker.options.timeoutMs);
  admission.client = slot.client;
  const reply = askForSlot(slot, admission, () => callSoon(on));
  let pod: string | undefined;
  let code = STORE_UNAVAILABLE;
  if (reply === undefined) {
    const asked = askedAlone(admission, on);
    pod = placeWithoutStore(asked, nowMs());
    if (pod === undefined) code = refusalWithoutStore(asked);
  } else if (reply.outcome === NOT_CONFIGURED) code = NO_CONNECTIONS;
  else {
    code = reply.code;
    if (reply.allowed) pod = reply.pod;
  }
  const slotless = pod === undefined && exchange.account.limits.dryRun && isLiftedByDryRun(code);
  countSlotDecision(started);
  if (pod === undefined) countSlotRefusal(code, slotless);
  if (slotless) {
    pod = pods[0]!;
    ngx.header[DRY_RUN_HEADER] = dryRunText(code);
  }
  if (pod === undefined) {
    if (failed !== undefined) refuseUnreachable();
    refuseSlot(code, exchange, route, reply === undefined ? 0 : reply.retryAfterSeconds);
    return;
  }
  slot.pod = pod;
  slot.socket = currentSocket();
  slot.calledAt = nowMs();
  sockets.calling = sockets.calling + 1;
  if (slotless) holdSlotless(slot);
  else {
    if (reply === undefined) slot.connection = newConnection();
    slot.leased = reply !== undefined;
    hold(slot);
  }
  ngx.var.tollgate_upstream = route.podUpstreams[pod] ?? "";
  ngx.var.tollgate_pod = pod;
  ngx.var.tollgate_connection = "Upgrade";
  ngx.var.tollgate_protocols = protocols;
}

function newSlot(app: string, client: string, on: SocketRoute): NginxSlot {
  return {
    on,
    connection: "",
    pod: "",
    app,
    client,
    route: on.options.name,
    leased: false,
    inStore: false,
    // Until it is admitted there is nothing to end.
    ended: true,
    pending: undefined,
    place: 0,
    socket: "",
    calledAt: 0,
    answered: false,
    slotless: false,
  };
}

/**
 * nginx repeats the access phase because the pod failed. If the pod could not be reached, another one is tried once, with
 * a slot of its own. If it was reached and its response was invalid or missing, the client gets an error.
 */
function giveUpPod(route: NginxSocketRoute, slot: NginxSlot): void {
  podFailed(route, slot.pod);
  endConnection(slot);
  if (ofLastPod("upstream_connect_time") !== "-") {
    if (ofLastPod("upstream_status") === "504") refuseHead("upstream_timeout");
    refuseHead("upstream_broken");
  }
}

function refuseUnreachable(): void {
  if (ofLastPod("upstream_status") === "504") refuseHead("upstream_connect_timeout");
  refuseHead("upstream_unreachable");
}

function askedAlone({ app, client, pods }: SlotAdmission, { options, counts }: SocketRoute): PlacementWithoutStore {
  const liveNodes = knownNodes(firstNode());
  return { counters: counts, limits: options, route: options.name, app, client, pods, liveNodes, workers: 1 };
}

function hold(slot: NginxSlot): void {
  slot.inStore = slot.leased;
  slot.ended = false;
  appendHeld(slot.on.keeper.held, slot);
  // Admission without the store has counted it.
  register(slot, !slot.leased);
}

function refuseSlot(code: string, exchange: Exchange, limits: NginxSocketRoute, seconds: number): void {
  const retryAfter = seconds > 0 ? seconds : connectionRetryAfter(code, 0, luaMath.random());
  sendRefusal(connectionRefusal({ code, app: exchange.account.limits.id, limits, retryAfter }));
}
