/** Slot keepers like those of several gateway processes: each has its own client of a real Redis, possibly through a proxy, and can be paused or killed. */

import { systemClock } from "../../../src/shared/clock.js";
import type { ConnectionVerdict, SlotHold } from "../../../src/slots/connection-admission.js";
import type { RouteLimits } from "../../../src/slots/route-limits.js";
import { createSlotKeeper, newProxyId, type SlotKeeper } from "../../../src/slots/slot-keeper.js";
import type { SlotKeeperOptions } from "../../../src/slots/slot-keeper-options.js";
import { createRouteSlots, type RouteSlots } from "../../../src/slots/slots.js";
import { createRedisStore } from "../../../src/store/redis/redis-store.js";
import { createStandingClock } from "../../unit/slots/standing-clock.js";

export const CLUSTER = "c1";
export const ROUTE = "/ws/";

export function limits(more: Partial<RouteLimits> = {}): RouteLimits {
  return {
    ...{ maxPerPod: 2, maxTotal: 0, maxPerApp: 0, ratePerSecond: 0, burst: 1, leaseMs: 30_000 },
    onStoreFailure: "closed",
    ...more,
  };
}

export interface Gateway {
  name: string;
  keeper: SlotKeeper;
  open: Map<string, { pod: string; slot: SlotHold }>;
  closed: string[];
  connect(pods: string[], app?: string, route?: string): Promise<ConnectionVerdict>;
  end(connection: string): void;
  endAll(): void;
  pause(): void;
  resume(): Promise<void>;
  /** Without releasing anything. */
  kill(): Promise<void>;
  stop(): Promise<void>;
}

export function startGateway(
  url: string,
  route: RouteLimits,
  own: Partial<SlotKeeperOptions> = {},
  placementOf?: (route: string) => number | undefined,
): Gateway {
  const timeoutMs = own.timeoutMs ?? 1_000;
  const store = createRedisStore({ url, deadlineMs: timeoutMs });
  const clock = createStandingClock(systemClock);
  const slots = createRouteSlots(store, CLUSTER, placementOf);
  const name = newProxyId("gw");
  const keeper = createSlotKeeper({
    slots: heardBy(slots, clock.awake),
    ...{ proxy: name, routes: new Map([[ROUTE, route]]), timeoutMs, liveProxies: () => 2, clock },
    ...own,
  });
  const open: Gateway["open"] = new Map();
  const gateway: Gateway = {
    ...{ name, keeper, open, closed: [] },
    async connect(pods, app = "chat", on = ROUTE) {
      const verdict = await keeper.admit({ app, route: on, pods });
      if (!verdict.allowed) return verdict;
      const { slot, pod } = verdict;
      open.set(slot.connection, { pod, slot });
      slot.onLost(() => {
        open.delete(slot.connection);
        gateway.closed.push(slot.connection);
        slot.release();
      });
      return verdict;
    },
    end(connection) {
      open.get(connection)?.slot.release();
      open.delete(connection);
    },
    endAll() {
      for (const connection of [...open.keys()]) gateway.end(connection);
    },
    pause: clock.pause,
    resume: clock.resume,
    async kill() {
      clock.pause();
      await store.close();
    },
    async stop() {
      await clock.resume();
      await keeper.close();
      await store.close();
    },
  };
  return gateway;
}

/** Replies that arrive during a pause are read when the process is resumed. */
function heardBy(slots: RouteSlots, awake: () => Promise<void>): SlotKeeperOptions["slots"] {
  const late = async <T>(answer: Promise<T>): Promise<T> => {
    const ended = answer.catch(() => undefined);
    await ended;
    await awake();
    return answer;
  };
  return {
    tagOf: slots.tagOf,
    of(route) {
      const { acquire, renew, release } = slots.of(route);
      return {
        acquire: (...asked) => late(acquire(...asked)),
        renew: (...asked) => late(renew(...asked)),
        release: (...asked) => late(release(...asked)),
      };
    },
  };
}
