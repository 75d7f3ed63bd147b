/** Calls of the service for slots. Every call may be repeated. */
import { NOT_CONFIGURED } from "../../../engine/slots/contact.js";
import type { EndedSlot } from "../../../engine/slots/releases.js";
import {
  ACQUIRE_PATH,
  acquireText,
  outcomeOf,
  RELEASE_PATH,
  RENEW_PATH,
  type RenewReply,
  readAcquired,
  readRenewed,
  type SlotReply,
  slotListText,
} from "../../lua/slot-messages.js";
import { ngx } from "../ngx.js";
import { callService, type ServiceReply } from "../service-client.js";
import { type NginxSlot, sockets } from "./state.js";

const INCARNATION = "incarnation";

function call(path: string, message: string, deadlineMs: number): ServiceReply {
  const reply = callService(path, message, deadlineMs);
  if (outcomeOf(reply.status, reply.body) === NOT_CONFIGURED) {
    ngx.log(ngx.ERR, "tollgate: the service's configuration differs from that of this nginx: ", reply.body);
  }
  return reply;
}

function learnLease(leaseMs: number): void {
  if (leaseMs > 0) sockets.keeper.leaseMs = leaseMs;
}

export function acquireSlot(slot: NginxSlot, pods: string[], reclaim: boolean, deadlineMs: number): SlotReply {
  const { connection, app, route } = slot;
  const { incarnation } = sockets.keeper.contact;
  const message = { proxy: sockets.proxy, connection, app, route, pods, reclaim, incarnation };
  const { status, body } = call(ACQUIRE_PATH, acquireText(message), deadlineMs);
  const reply = readAcquired(status, body);
  learnLease(reply.leaseMs);
  return reply;
}

export function renewSlots(slots: NginxSlot[], deadlineMs: number): RenewReply {
  const { status, body } = call(RENEW_PATH, slotListText(sockets.proxy, slots), deadlineMs);
  const reply = readRenewed(status, body);
  learnLease(reply.leaseMs);
  return reply;
}

/** All of one proxy. */
export function releaseSlots(slots: EndedSlot[], deadlineMs: number): { outcome: string } {
  const { status, body } = call(RELEASE_PATH, slotListText(slots[0]!.proxy, slots), deadlineMs);
  return { outcome: outcomeOf(status, body) };
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
