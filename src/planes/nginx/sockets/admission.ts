/** Admission of an upgrade: takes a slot after its price is paid, and sends the request to the pod of the slot. */
import type { NginxSocketRoute } from "../../../config/options/plane-options.js";
import { STORE_UNAVAILABLE } from "../../../core/codes.js";
import { connectionRefusal, connectionRetryAfter, isLiftedByDryRun } from "../../../core/refusals.js";
import { DRY_RUN_HEADER, dryRunText } from "../../../core/response-headers.js";
import { knownNodes } from "../../../engine/node.js";
import {
  ACQUIRE,
  candidatePods,
  DECIDED,
  NO_CONNECTIONS,
  newSlotAdmission,
  nextAdmissionStep,
  type SlotAdmission,
  STATE_LOST,
  slotAcquired,
  WAIT,
} from "../../../engine/slots/admission.js";
import { NOT_CONFIGURED } from "../../../engine/slots/contact.js";
import { appendHeld } from "../../../engine/slots/held.js";
import { placeWithoutStore } from "../../../engine/slots/without-store.js";
import { luaMath, luaString } from "../../lua/library.js";
import type { SlotReply } from "../../lua/slot-messages.js";
import { nowMs } from "../clock.js";
import type { Exchange } from "../http/exchanges.js";
import { refuseHead, sendRefusal } from "../http/response.js";
import { ngx } from "../ngx.js";
import { firstNode, worker } from "../state.js";
import { currentClient } from "./client-socket.js";
import { countSlotDecision, countSlotRefusal } from "./counters.js";
import { endConnection } from "./end.js";
import { isDown, ofLastPod, podFailed } from "./pods.js";
import { register } from "./registry.js";
import { callSoon, holdSlotless } from "./renewal.js";
import { acquireSlot, shareIncarnation } from "./slot-calls.js";
import { type NginxSlot, type SocketRoute, sockets } from "./state.js";

/** Interval at which a waiting request looks whether the keeper has recovered. */
const LOOK_SECONDS = 0.01;

/** In the access phase. Returns if the request may go to its pod; otherwise it is refused here. */
export function placeSocket(exchange: Exchange, on: SocketRoute, protocols: string): void {
  const route = on.options;
  const failed = sockets.byExchange[exchange.id];
  if (failed !== undefined) giveUpPod(route, failed);
  const pods = candidatePods(route.pods, sockets.turn, failed === undefined ? "" : failed.pod, isDown);
  sockets.turn = sockets.turn + 1;
  if (pods.length === 0) {
    if (failed !== undefined) refuseUnreachable();
    refuseHead("no_target");
  }
  const slot = newSlot(exchange.account.limits.id, on);
  sockets.byExchange[exchange.id] = slot;
  const started = nowMs();
  const admission = newSlotAdmission(slot.app, pods, started, worker.options.timeoutMs);
  const reply = ask(slot, admission);
  let pod: string | undefined;
  let code = STORE_UNAVAILABLE;
  if (reply === undefined) pod = placeAlone(admission, on);
  else if (reply.outcome === NOT_CONFIGURED) code = NO_CONNECTIONS;
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
  slot.client = currentClient();
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

function newConnection(): string {
  sockets.lastConnection = sockets.lastConnection + 1;
  return luaString.format("%d", sockets.lastConnection);
}

function newSlot(app: string, on: SocketRoute): NginxSlot {
  return {
    on,
    connection: "",
    pod: "",
    app,
    route: on.options.name,
    leased: false,
    inStore: false,
    // Until it is admitted there is nothing to end.
    ended: true,
    pending: undefined,
    place: 0,
    client: "",
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

/** Undefined when the decision must be made without the store. */
function ask(slot: NginxSlot, admission: SlotAdmission): SlotReply | undefined {
  const { on } = slot;
  const { keeper } = on;
  for (;;) {
    const step = nextAdmissionStep(keeper, admission, nowMs());
    callSoon(on);
    if (step === WAIT) ngx.sleep(LOOK_SECONDS);
    else if (step === ACQUIRE) {
      const sentAt = nowMs();
      const connection = newConnection();
      slot.connection = connection;
      slot.pending = admission;
      const reply = acquireSlot(slot, admission.pods, false, Math.max(admission.until - sentAt, 1));
      slot.pending = undefined;
      const meaning = slotAcquired(keeper, { admission, connection, sentAt }, reply, nowMs());
      shareIncarnation(on);
      callSoon(on);
      if (meaning === DECIDED) return reply;
      if (meaning !== STATE_LOST) return undefined;
    } else return undefined;
  }
}

function placeAlone({ app, pods }: SlotAdmission, { options, counts }: SocketRoute): string | undefined {
  const liveNodes = knownNodes(firstNode());
  const asked = { counters: counts, limits: options, route: options.name, app, pods, liveNodes, workers: 1 };
  return placeWithoutStore(asked, nowMs());
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
