/** Calls of the service for slots. Every call may be repeated. */
import { NOT_CONFIGURED } from "../../../engine/slots/contact.js";
import type { EndedSlot } from "../../../engine/slots/releases.js";
import * as messages from "../../lua/slot-messages.js";
import { ngx } from "../ngx.js";
import { callService, type ServiceReply } from "../service-client.js";
import { firstNode } from "../state.js";
import { type NginxSlot, type SocketRoute, sockets } from "./state.js";

const incarnationKey = ({ options }: SocketRoute) => `incarnation:${options.name}`;

function call(path: string, message: string, deadlineMs: number): ServiceReply {
  const reply = callService(firstNode(), path, message, deadlineMs);
  if (messages.outcomeOf(reply.status, reply.body) === NOT_CONFIGURED) {
    ngx.log(ngx.ERR, "tollgate: the service's configuration differs from that of this nginx: ", reply.body);
  }
  return reply;
}

function learnLease({ keeper }: SocketRoute, leaseMs: number): void {
  if (leaseMs > 0) keeper.leaseMs = leaseMs;
}

export function acquireSlot(slot: NginxSlot, pods: string[], reclaim: boolean, deadlineMs: number): messages.SlotReply {
  const { connection, app, route, on } = slot;
  const { incarnation } = on.keeper.contact;
  const message = { proxy: sockets.proxy, connection, app, route, pods, reclaim, incarnation };
  const { status, body } = call(messages.ACQUIRE_PATH, messages.acquireText(message), deadlineMs);
  const reply = messages.readAcquired(status, body);
  learnLease(on, reply.leaseMs);
  return reply;
}

/** All of one route. */
export function renewSlots(route: SocketRoute, slots: NginxSlot[], deadlineMs: number) {
  const message = messages.slotListText({ proxy: sockets.proxy, route: route.options.name }, slots);
  const { status, body } = call(messages.RENEW_PATH, message, deadlineMs);
  const reply = messages.readRenewed(status, body);
  learnLease(route, reply.leaseMs);
  return reply;
}

/** All of one route and proxy. */
export function releaseSlots(route: SocketRoute, slots: EndedSlot[], deadlineMs: number): { outcome: string } {
  const message = messages.slotListText({ proxy: slots[0]!.proxy, route: route.options.name }, slots);
  const { status, body } = call(messages.RELEASE_PATH, message, deadlineMs);
  return { outcome: messages.outcomeOf(status, body) };
}

/** A new worker starts with the incarnation that the others knew. So it notices if the store has lost its slots since. */
export function inheritIncarnation(route: SocketRoute): void {
  const { contact } = route.keeper;
  const known = sockets.dict.get(incarnationKey(route));
  if (known !== undefined) contact.incarnation = known as string;
  route.sharedIncarnation = contact.incarnation;
}

/** To be called after each reply. */
export function shareIncarnation(route: SocketRoute): void {
  const { incarnation } = route.keeper.contact;
  if (incarnation === route.sharedIncarnation) return;
  route.sharedIncarnation = incarnation;
  sockets.dict.safe_set(incarnationKey(route), incarnation);
}
