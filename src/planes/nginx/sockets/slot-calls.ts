/** Calls of the service for slots. Every call may be repeated. */
import { NOT_CONFIGURED } from "../../../engine/slots/contact.js";
import type { EndedSlot } from "../../../engine/slots/releases.js";
import * as messages from "../../lua/slot-messages.js";
import { ngx } from "../ngx.js";
import { callService, type ServiceReply } from "../service-client.js";
import { type NginxSlot, sockets } from "./state.js";

const INCARNATION = "incarnation";

function call(path: string, message: string, deadlineMs: number): ServiceReply {
  const reply = callService(path, message, deadlineMs);
  if (messages.outcomeOf(reply.status, reply.body) === NOT_CONFIGURED) {
    ngx.log(ngx.ERR, "tollgate: the service's configuration differs from that of this nginx: ", reply.body);
  }
  return reply;
}

function learnLease(leaseMs: number): void {
  if (leaseMs > 0) sockets.keeper.leaseMs = leaseMs;
}

export function acquireSlot(slot: NginxSlot, pods: string[], reclaim: boolean, deadlineMs: number): messages.SlotReply {
  const { connection, app, route } = slot;
  const { incarnation } = sockets.keeper.contact;
  const message = { proxy: sockets.proxy, connection, app, route, pods, reclaim, incarnation };
  const { status, body } = call(messages.ACQUIRE_PATH, messages.acquireText(message), deadlineMs);
  const reply = messages.readAcquired(status, body);
  learnLease(reply.leaseMs);
  return reply;
}

export function renewSlots(slots: NginxSlot[], deadlineMs: number) {
  const { status, body } = call(messages.RENEW_PATH, messages.slotListText(sockets.proxy, slots), deadlineMs);
  const reply = messages.readRenewed(status, body);
  learnLease(reply.leaseMs);
  return reply;
}

/** All of one proxy. */
export function releaseSlots(slots: EndedSlot[], deadlineMs: number): { outcome: string } {
  const { status, body } = call(messages.RELEASE_PATH, messages.slotListText(slots[0]!.proxy, slots), deadlineMs);
  return { outcome: messages.outcomeOf(status, body) };
}

/** A new worker starts with the incarnation that the others knew. So it notices if the store has lost its slots since. */
export function inheritIncarnation(): void {
  const known = sockets.dict.get(INCARNATION);
  if (known !== undefined) sockets.keeper.contact.incarnation = known as string;
  sockets.sharedIncarnation = sockets.keeper.contact.incarnation;
}

/** To be called after each reply. */
export function shareIncarnation(): void {
  const { incarnation } = sockets.keeper.contact;
  if (incarnation === sockets.sharedIncarnation) return;
  sockets.sharedIncarnation = incarnation;
  sockets.dict.safe_set(INCARNATION, incarnation);
}
