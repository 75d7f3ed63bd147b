/**
 * Holds one slot per connection of a process on one route: takes it, keeps its lease, and releases it, also through pauses
 * and store outages.
 */
import { SLOT_SUCCESS, STORE_UNAVAILABLE } from "../core/codes.js";
import { connectionRefusal, connectionRetryAfter, isLiftedByDryRun } from "../core/refusals.js";
import { DRY_RUN_HEADER, dryRunText } from "../core/response-headers.js";
import { ANSWERED } from "../engine/slots/contact.js";
import { allHeld, appendHeld } from "../engine/slots/held.js";
import { beatMs, endSlot, requestRecovery } from "../engine/slots/keeper.js";
import { releasesLeft } from "../engine/slots/releases.js";
import {
  ACQUIRE,
  admissionWaitMs,
  candidatePods,
  DECIDED,
  DRAINING,
  isRecovered,
  NO_CONNECTIONS,
  NO_POD,
  newSlotAdmission,
  nextAdmissionStep,
  type SlotAdmission,
  STATE_LOST,
  slotAcquired,
  WAIT,
} from "../engine/slots/slot-admission.js";
import { countSlot, newSlotCounters, placeWithoutStore, refusalWithoutStore } from "../engine/slots/without-store.js";
import { StoreError } from "../store/errors.js";
import type { ConnectionRequest, ConnectionVerdict } from "./connection-admission.js";
import { createRenewal, type Held } from "./renewal.js";
import type { RouteLimits } from "./route-limits.js";
import type { SlotKeeperOptions } from "./slot-keeper-options.js";
import type { SlotAnswer, Slots } from "./slots.js";

/** The plane offers only pods that are up. */
const isDown = () => false;

/** The options that may change at run time. */
export interface RouteOptions {
  /** Undefined: the route was removed. Open connections stay, and no new ones are admitted. */
  limits: RouteLimits | undefined;
  timeoutMs: number;
  /** Interval of calls while no connection is open. */
  heartbeatMs: number;
}

export interface RouteKeeperOptions
  extends RouteOptions,
    Required<Pick<SlotKeeperOptions, "proxy" | "liveProxies" | "clock" | "observer" | "random">> {
  route: string;
  slots: Pick<Slots, "acquire" | "renew" | "release">;
  limits: RouteLimits;
  /** Returns an id that no other connection of the process has. */
  newConnection(): string;
}

/** `limits` are those of the route; undefined if it has none. */
export function refuseConnection(
  code: string,
  asked: { app: string; limits?: RouteLimits | undefined; retryAfterMs?: number; random: number },
): ConnectionVerdict {
  const { app, limits, retryAfterMs = 0, random } = asked;
  const retryAfter = connectionRetryAfter(code, retryAfterMs, random);
  const { status, body } = connectionRefusal({ code, app, limits, retryAfter });
  return { allowed: false, status, body, headers: { "Retry-After": String(retryAfter) } };
}

/** A connection of an app on a dry run that would be refused. It occupies no slot, so that it takes none of other apps. */
function withoutSlot(pod: string, code: string): ConnectionVerdict {
  const slot = { connection: "", release() {}, onLost() {} };
  return { allowed: true, headers: { [DRY_RUN_HEADER]: dryRunText(code) }, pod, slot };
}

export type RouteKeeper = ReturnType<typeof createRouteKeeper>;

export function createRouteKeeper(options: RouteKeeperOptions) {
  const { slots, proxy, clock, observer, random, newConnection } = options;
  let current: RouteOptions = options;
  let draining = false;
  let turn = 0;
  let admitting = 0;
  const counters = newSlotCounters({});
  const renewal = createRenewal({
    slots,
    proxy,
    route: options.route,
    clock,
    observer,
    random,
    leaseMs: options.limits.leaseMs,
    timeoutMs: () => current.timeoutMs,
    limits: () => current.limits,
    removed: (slot) => countSlot(counters, slot, -1),
  });
  const { state } = renewal;
  applyOptions();

  function applyOptions(): void {
    const { limits, heartbeatMs } = current;
    if (limits !== undefined) state.leaseMs = limits.leaseMs;
    state.heartbeatMs = limits === undefined ? 0 : Math.max(heartbeatMs, beatMs(state.leaseMs));
    state.notConfigured = limits === undefined;
  }

  async function admit(request: ConnectionRequest): Promise<ConnectionVerdict> {
    const { app, client, route, dryRun = false } = request;
    const started = clock.now();
    const { limits } = current;
    const observe = (decision: { allowed: boolean; code: string; pod: string; withoutStore: boolean }) =>
      observer.decided?.({ ...decision, route, app, dryRun, milliseconds: clock.now() - started });
    const refuse = (code: string, retryAfterMs = 0, pod = "") => {
      if (dryRun && pod !== "" && isLiftedByDryRun(code)) {
        observe({ allowed: true, code, pod, withoutStore: code === STORE_UNAVAILABLE });
        return withoutSlot(pod, code);
      }
      observe({ allowed: false, code, pod: "", withoutStore: code === STORE_UNAVAILABLE });
      return refuseConnection(code, { app, limits, retryAfterMs, random: random() });
    };

    if (draining) return refuse(DRAINING);
    if (limits === undefined) return refuse(NO_CONNECTIONS);
    if (request.pods.length === 0) return refuse(NO_POD);
    const pods = candidatePods(request.pods, turn++, "", isDown);
    const admission = newSlotAdmission(app, pods, started, current.timeoutMs);
    admission.client = client;
    admitting++;
    const answered = await ask(admission, limits).finally(() => admitting--);
    if (answered === undefined) {
      const asked = { counters, limits, route, app, client, pods, liveNodes: options.liveProxies(), workers: 1 };
      const pod = draining ? undefined : placeWithoutStore(asked, clock.now());
      if (pod === undefined) {
        return draining ? refuse(STORE_UNAVAILABLE) : refuse(refusalWithoutStore(asked), 0, pods[0]);
      }
      observe({ allowed: true, code: SLOT_SUCCESS, pod, withoutStore: true });
      return hold({ ...request, dryRun, limits, connection: newConnection(), pod, leased: false });
    }
    const { connection, allowed, code = "", pod = "", retryAfterMs } = answered;
    if (allowed !== true) return refuse(code, retryAfterMs, pods[0]);
    observe({ allowed, code, pod, withoutStore: false });
    countSlot(counters, { pod, app, client }, 1);
    return hold({ ...request, dryRun, limits, connection, pod, leased: true });
  }

  /** Undefined when the decision must be made without the store. */
  async function ask(admission: SlotAdmission, limits: RouteLimits) {
    for (;;) {
      const step = nextAdmissionStep(state, admission, clock.now());
      renewal.run();
      if (step === ACQUIRE) {
        const connection = newConnection();
        const sentAt = clock.now();
        const answer = await acquire(admission, connection, limits);
        const meaning = slotAcquired(state, { admission, connection, sentAt }, answer, clock.now());
        renewal.run();
        if (meaning === DECIDED) return { ...answer, connection };
        if (meaning !== STATE_LOST) return undefined;
      } else if (step === WAIT && !draining) await renewal.nextChange(admissionWaitMs(state, admission, clock.now()));
      else return undefined;
    }
  }

  async function acquire(
    { app, client, pods, until }: SlotAdmission,
    connection: string,
    limits: RouteLimits,
  ): Promise<Partial<SlotAnswer> & { outcome: string }> {
    try {
      const request = { proxy, connection, app, client, pods, incarnation: state.contact.incarnation };
      const deadlineMs = Math.max(until - clock.now(), 1);
      return { ...(await slots.acquire(request, limits, { deadlineMs })), outcome: ANSWERED };
    } catch (error) {
      const outcome = renewal.failed("acquire", error);
      if (!(error instanceof StoreError)) throw error;
      return { outcome };
    }
  }

  function hold(admitted: Omit<Held, "inStore" | "ended" | "lost">): ConnectionVerdict {
    const { connection, pod, app, client, route, limits, leased, dryRun } = admitted;
    const known = { connection, pod, app, client, route, limits, leased, dryRun };
    const held: Held = { ...known, inStore: leased, ended: false, lost: false };
    appendHeld(state.held, held);
    const onLost = (handler: () => void) => {
      held.lostHandler = handler;
      if (held.lost) queueMicrotask(handler);
    };
    return { allowed: true, headers: {}, pod, slot: { connection, release: () => release(held), onLost } };
  }

  function release(slot: Held): void {
    if (!endSlot(state, slot)) return;
    countSlot(counters, slot, -1);
    renewal.runSoon();
  }

  function stats() {
    const all = allHeld(state.held);
    /** Connections held by this process, and the limit for all processes together. */
    const pods = new Map<string, { route: string; pod: string; active: number; limit: number }>();
    for (const { pod, limits } of all) {
      const active = (pods.get(pod)?.active ?? 0) + 1;
      pods.set(pod, { route: options.route, pod, active, limit: (current.limits ?? limits).maxPerPod });
    }
    return {
      active: all.length,
      /** Admitted without the store. */
      withoutLease: all.filter((slot) => !slot.leased).length,
      pods: [...pods.values()],
      releasesWaiting: releasesLeft(state.releases),
      storeAway: state.contact.away,
      recovered: isRecovered(state, clock.now()),
    };
  }

  /** Releases all slots, waits until that is acknowledged or the store fails, and stops. */
  async function close(): Promise<void> {
    draining = true;
    await renewal.close();
    for (const slot of allHeld(state.held)) release(slot);
    // If the store fails, the leases expire.
    await renewal.flushReleases();
  }

  return {
    admit,
    /** Open connections stay, whatever the new limits are. */
    reconfigure(next: RouteOptions): void {
      const before = state.leaseMs;
      current = next;
      applyOptions();
      // Leases of a shorter time would expire before their next renewal.
      if (state.leaseMs !== before) requestRecovery(state);
      renewal.run();
    },
    /** Admits no more connections. */
    drain(): void {
      draining = true;
    },
    close,
    stats,
    /** Nothing is open, being decided or to be released. */
    isIdle: () => state.held.count === 0 && releasesLeft(state.releases) === 0 && admitting === 0,
  };
}
