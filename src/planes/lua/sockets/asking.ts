/** Asks the service for the slot of a new connection. */
import {
  ACQUIRE,
  DECIDED,
  nextAdmissionStep,
  type SlotAdmission,
  STATE_LOST,
  slotAcquired,
  WAIT,
} from "../../../engine/slots/slot-admission.js";
import { nowMs, running } from "../host.js";
import { luaString } from "../library.js";
import type { SlotReply } from "../slot-messages.js";
import { acquireSlot, shareIncarnation } from "./slot-calls.js";
import { type PlaneSlot, slotHome } from "./state.js";

/** Interval at which a waiting request looks whether the keeper has recovered. */
const LOOK_SECONDS = 0.01;

export function newConnection(): string {
  slotHome.lastConnection = slotHome.lastConnection + 1;
  return luaString.format("%d", slotHome.lastConnection);
}

/** Undefined when the decision must be made without the store. `callSoon` makes the calls of the keeper that are due. */
export function askForSlot<S>(
  slot: PlaneSlot<S>,
  admission: SlotAdmission,
  callSoon: (this: void) => void,
): SlotReply | undefined {
  const { on } = slot;
  const { keeper } = on;
  for (;;) {
    const step = nextAdmissionStep(keeper, admission, nowMs());
    callSoon();
    if (step === WAIT) running.sync.sleep(LOOK_SECONDS);
    else if (step === ACQUIRE) {
      const sentAt = nowMs();
      const connection = newConnection();
      slot.connection = connection;
      slot.pending = admission;
      const reply = acquireSlot(slot, admission.pods, false, Math.max(admission.until - sentAt, 1));
      slot.pending = undefined;
      const meaning = slotAcquired(keeper, { admission, connection, sentAt }, reply, nowMs());
      shareIncarnation(on);
      callSoon();
      if (meaning === DECIDED) return reply;
      if (meaning !== STATE_LOST) return undefined;
    } else return undefined;
  }
}
