/** Calls of the service for slots. Every call may be repeated. */

import { NOT_CONFIGURED } from "../../../engine/slots/contact.js";
import type { EndedSlot } from "../../../engine/slots/releases.js";
import { running } from "../host.js";
import { firstNode } from "../http/state.js";
import type { ServiceReply } from "../proxy.js";
import * as messages from "../slot-messages.js";
import { type PlaneSlot, type SlotRoute, slotHome } from "./state.js";

const incarnationKey = (name: string) => `incarnation:${name}`;

function call(path: string, message: string, deadlineMs: number): ServiceReply {
  const reply = running.sync.callService(firstNode(), path, message, deadlineMs);
  if (messages.outcomeOf(reply.status, reply.body) === NOT_CONFIGURED) {
    const { plane } = running.host;
    running.host.logError(`tollgate: the service's configuration differs from that of this ${plane}: ${reply.body}`);
  }
  return reply;
}

function learnLease<S>({ keeper }: SlotRoute<S>, leaseMs: number): void {
  if (leaseMs > 0) keeper.leaseMs = leaseMs;
}

export function acquireSlot<S>(
  slot: PlaneSlot<S>,
  pods: string[],
  reclaim: boolean,
  deadlineMs: number,
): messages.SlotReply {
  const { connection, app, client, route, on } = slot;
  const { incarnation } = on.keeper.contact;
  const message = { proxy: slotHome.proxy, connection, app, client, route, pods, reclaim, incarnation };
  const { status, body } = call(messages.ACQUIRE_PATH, messages.acquireText(message), deadlineMs);
  const reply = messages.readAcquired(status, body);
  learnLease(on, reply.leaseMs);
  return reply;
}

/** All of one route. */
export function renewSlots<S extends PlaneSlot<S>>(route: SlotRoute<S>, slots: S[], deadlineMs: number) {
  const message = messages.slotListText({ proxy: slotHome.proxy, route: route.options.name }, slots);
  const { status, body } = call(messages.RENEW_PATH, message, deadlineMs);
  const reply = messages.readRenewed(status, body);
  learnLease(route, reply.leaseMs);
  return reply;
}

/** All of one route and proxy. */
export function releaseSlots<S>(route: SlotRoute<S>, slots: EndedSlot[], deadlineMs: number): { outcome: string } {
  const message = messages.slotListText({ proxy: slots[0]!.proxy, route: route.options.name }, slots);
  const { status, body } = call(messages.RELEASE_PATH, message, deadlineMs);
  return { outcome: messages.outcomeOf(status, body) };
}

/** A new worker starts with the incarnation that the others knew. So it notices if the store has lost its slots since. */
export function inheritIncarnation<S>(route: SlotRoute<S>): void {
  const { contact } = route.keeper;
  const known = slotHome.memory.get(incarnationKey(route.options.name));
  if (known !== undefined) contact.incarnation = known as string;
  route.sharedIncarnation = contact.incarnation;
}

/** To be called after each reply. */
export function shareIncarnation<S>(route: SlotRoute<S>): void {
  const { incarnation } = route.keeper.contact;
  if (incarnation === route.sharedIncarnation) return;
  route.sharedIncarnation = incarnation;
  slotHome.memory.safe_set(incarnationKey(route.options.name), incarnation);
}
