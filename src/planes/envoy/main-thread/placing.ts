/** Places an upgrade on a pod: takes a slot, and moves to another pod once if the first cannot be reached. */
import { STORE_UNAVAILABLE } from "../../../core/codes.js";
import { type GatewayError, isLiftedByDryRun } from "../../../core/refusals.js";
import { knownNodes } from "../../../engine/node.js";
import { NOT_CONFIGURED } from "../../../engine/slots/contact.js";
import { candidatePods, NO_CONNECTIONS, newSlotAdmission } from "../../../engine/slots/slot-admission.js";
import { placeWithoutStore, refusalWithoutStore } from "../../../engine/slots/without-store.js";
import { nowMs } from "../../lua/host.js";
import { firstNode, worker } from "../../lua/http/state.js";
import { askForSlot, newConnection } from "../../lua/sockets/asking.js";
import { countSlotDecision, countSlotRefusal } from "../../lua/sockets/counters.js";
import { isDown, podFailed } from "../../lua/sockets/pods.js";
import { slotHome } from "../../lua/sockets/state.js";
import { envoy } from "../module-state.js";
import { podProblem } from "./pod-checks.js";
import { type EnvoyRoute, type EnvoySlot, endConnection, holdSlot, holdWithoutSlot, newSlot, soon } from "./sockets.js";

/** An upgrade that a worker wants to have placed. */
export interface Upgrade {
  on: EnvoyRoute;
  app: string;
  client: string;
  /** By which its stream can be closed. */
  stream: number;
  dryRun: boolean;
  /** Of the current attempt. */
  slot: EnvoySlot;
}

/** What was decided about an upgrade: a pod, an error of the gateway, or the code of the refusal. */
export interface Placement {
  pod: string | undefined;
  /** The pod, and the other one if there is one, cannot be reached. */
  problem: GatewayError | "";
  /** Of the refusal, or of the one that a dry run lifts. */
  code: string;
  retryAfterSeconds: number;
}

export function newUpgrade(on: EnvoyRoute, app: string, client: string, stream: number, dryRun: boolean): Upgrade {
  return { on, app, client, stream, dryRun, slot: newSlot(on, app, client, stream) };
}

/** The slot of the upgrade is held if it has a pod. Only in a task. */
export function place(this: void, upgrade: Upgrade): Placement {
  const first = attempt(upgrade, "");
  if (first.pod === undefined || first.problem === "") return first;
  const { on, app, client, stream } = upgrade;
  upgrade.slot = newSlot(on, app, client, stream);
  const second = attempt(upgrade, first.pod);
  if (second.pod !== undefined && second.problem === "") return second;
  // As on the other planes, the client sees the error of the pod that was not reached.
  first.pod = undefined;
  if (second.problem !== "") first.problem = second.problem;
  return first;
}

/** With a problem, the slot is released, and `pod` is the one that was not reached. */
function attempt(upgrade: Upgrade, excluded: string): Placement {
  const { slot } = upgrade;
  const placement = takeSlot(upgrade, excluded);
  const { pod } = placement;
  if (pod === undefined) return placement;
  // The time for the pod's answer begins later.
  slot.calledAt = nowMs() + envoy.options.connectMs;
  placement.problem = podProblem(pod);
  if (placement.problem !== "") {
    podFailed(slot.on.options, pod);
    endConnection(slot);
  } else if (slot.ended) {
    // It lost its slot meanwhile, or Envoy exits.
    placement.pod = undefined;
    placement.problem = "slot_lost";
  } else {
    slot.calledAt = nowMs();
    slot.placed = true;
  }
  return placement;
}

function takeSlot({ on, slot, dryRun }: Upgrade, excluded: string): Placement {
  const placement: Placement = { pod: undefined, problem: "", code: STORE_UNAVAILABLE, retryAfterSeconds: 0 };
  const pods = candidatePods(on.options.pods, slotHome.turn, excluded, isDown);
  slotHome.turn = slotHome.turn + 1;
  if (pods.length === 0) return placement;
  const started = nowMs();
  const admission = newSlotAdmission(slot.app, pods, started, worker.options.timeoutMs);
  admission.client = slot.client;
  const reply = askForSlot(slot, admission, () => soon(on));
  if (reply === undefined) {
    const { app, client } = slot;
    const { options: limits, counts: counters } = on;
    const liveNodes = knownNodes(firstNode());
    const asked = { counters, limits, route: limits.name, app, client, pods, liveNodes, workers: 1 };
    placement.pod = placeWithoutStore(asked, nowMs());
    if (placement.pod === undefined) placement.code = refusalWithoutStore(asked);
  } else if (reply.outcome === NOT_CONFIGURED) placement.code = NO_CONNECTIONS;
  else {
    placement.code = reply.code;
    placement.retryAfterSeconds = reply.retryAfterSeconds;
    if (reply.allowed) placement.pod = reply.pod;
  }
  const slotless = placement.pod === undefined && dryRun && isLiftedByDryRun(placement.code);
  countSlotDecision(started);
  if (placement.pod === undefined) countSlotRefusal(placement.code, slotless);
  else placement.code = "";
  if (slotless) placement.pod = pods[0]!;
  if (placement.pod === undefined) return placement;
  slot.pod = placement.pod;
  if (slotless || reply === undefined) slot.connection = newConnection();
  if (slotless) holdWithoutSlot(slot);
  else holdSlot(slot, reply !== undefined);
  return placement;
}
