/** Random histories of acquires, renewals, releases, late calls and lost connections, compared with a model. */
import fc from "fast-check";
import { createRouteSlots } from "../../src/slots/slots.js";
import { type DrivenStore, START } from "./driven-store.js";

const SECOND = 1_000_000;
const PODS = ["pod-1", "pod-2", "pod-3"];
const PROXIES = ["p1", "p2"];
const LIMITS = { maxPerPod: 2, maxTotal: 5, maxPerApp: 3, ratePerSecond: 0.2, burst: 2, leaseMs: 30_000 };
const STEP = Math.floor((LIMITS.leaseMs * 1000) / 3);
const WINDOW = (LIMITS.burst / LIMITS.ratePerSecond) * SECOND;

export type SlotStep =
  | { kind: "acquire"; proxy: number; connection: number; app: number; pods: number; reclaim: boolean }
  | { kind: "renew" | "release"; proxy: number; connections: number[] }
  | { kind: "clock"; seconds: number };

const proxy = fc.nat({ max: PROXIES.length - 1 });
const connection = fc.nat({ max: 9 });

const step: fc.Arbitrary<SlotStep> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("acquire" as const),
      ...{ proxy, connection, app: fc.nat({ max: 1 }), pods: fc.integer({ min: 1, max: 7 }) },
      reclaim: fc.nat({ max: 4 }).map((n) => n === 0),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom("renew" as const, "release" as const),
      ...{ proxy, connections: fc.uniqueArray(connection, { maxLength: 4 }) },
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("clock" as const),
      seconds: fc.constantFrom(0.05, 0.3, 1, 5, 9.9, 10, 12, -5, 3600),
    }),
  },
);

export const slotHistory: fc.Arbitrary<SlotStep[]> = fc.array(step, { minLength: 10, maxLength: 100, size: "max" });

interface Slot {
  pod: string;
  app: string;
  ends: number;
}

/** Runs a history. Throws if a reply differs from the model of pods, leases and rate. */
export async function playSlots(store: DrivenStore, cluster: string, steps: SlotStep[]): Promise<void> {
  store.clock.now = START;
  // Other clusters and routes make the same calls on the same pods, and must not matter.
  const slots = createRouteSlots(store, cluster).of("/ws/");
  const others = [createRouteSlots(store, cluster).of("/other/"), createRouteSlots(store, `${cluster}-b`).of("/ws/")];
  // The model: leases with their pods and expiry times, released connections, and times of admissions.
  const seated = new Map<string, Slot>();
  const barred = new Map<string, number>();
  let admitted: number[] = [];
  let reportedAt = START;
  let steady = START;
  let lease = START;

  function tick(): void {
    const gone = Math.max(store.clock.now - reportedAt, 0);
    reportedAt = store.clock.now;
    steady += gone;
    lease += Math.min(gone, STEP);
    for (const [id, slot] of seated) if (slot.ends <= lease) seated.delete(id);
    for (const [id, until] of barred) if (until <= lease) barred.delete(id);
    admitted = admitted.filter((at) => at > steady - WINDOW);
  }

  const load = (pod: string) => [...seated.values()].filter((slot) => slot.pod === pod).length;

  function expected(id: string, app: string, pods: string[], reclaim: boolean): { code: string; pod: string } {
    const own = seated.get(id);
    if (own !== undefined && pods.includes(own.pod)) return { code: "ALREADY_HELD", pod: own.pod };
    const least = pods.reduce((best, pod) => (load(pod) < load(best) ? pod : best));
    if (barred.has(id)) return { code: "RELEASED", pod: "" };
    if (load(least) >= LIMITS.maxPerPod) return { code: "LIMIT_EXCEEDED", pod: "" };
    if (seated.size >= LIMITS.maxTotal) return { code: "TOTAL_LIMIT_EXCEEDED", pod: "" };
    if ([...seated.values()].filter((slot) => slot.app === app).length >= LIMITS.maxPerApp) {
      return { code: "APP_LIMIT_EXCEEDED", pod: "" };
    }
    if (!reclaim && admitted.length >= LIMITS.burst) return { code: "RATE_LIMITED", pod: "" };
    return { code: "SUCCESS", pod: least };
  }

  function same(what: string, got: unknown, wanted: unknown): void {
    if (JSON.stringify(got) === JSON.stringify(wanted)) return;
    throw new Error(`${what}: ${JSON.stringify(got)} instead of ${JSON.stringify(wanted)}`);
  }

  for (const now of steps) {
    if (now.kind === "clock") {
      store.clock.now += now.seconds * SECOND;
      continue;
    }
    tick();
    const name = PROXIES[now.proxy]!;
    if (now.kind === "acquire") {
      const id = `${name}/c${now.connection}`;
      // A retry uses the same pod and app as the first attempt.
      const own = seated.get(id);
      const app = own?.app ?? `app-${now.app}`;
      const pods = own === undefined ? PODS.filter((_, i) => (now.pods & (1 << i)) !== 0) : [own.pod];
      const wanted = expected(id, app, pods, now.reclaim);
      const request = { proxy: name, connection: `c${now.connection}`, app, pods, reclaim: now.reclaim };
      for (const other of others) await other.acquire(request, LIMITS);
      const answer = await slots.acquire(request, LIMITS);
      same("acquire", { code: answer.code, pod: answer.pod }, wanted);
      if (wanted.code === "SUCCESS") {
        seated.set(id, { pod: wanted.pod, app, ends: lease + LIMITS.leaseMs * 1000 });
        if (!now.reclaim) admitted.push(steady);
      }
    } else {
      const batch = now.connections.map((number) => {
        const own = seated.get(`${name}/c${number}`);
        return { connection: `c${number}`, pod: own?.pod ?? "pod-1", app: own?.app ?? "app-0" };
      });
      const strangers = batch.map((one) => one.connection).filter((one) => !seated.has(`${name}/${one}`));
      // They release what is renewed here.
      if (now.kind === "renew") for (const other of others) await other.release(name, LIMITS.leaseMs, batch);
      if (now.kind === "renew") {
        same("lost", (await slots.renew(name, LIMITS.leaseMs, batch)).lost, strangers);
      } else {
        same("unknown", (await slots.release(name, LIMITS.leaseMs, batch)).unknown, strangers);
      }
      for (const one of batch) {
        const id = `${name}/${one.connection}`;
        const own = seated.get(id);
        if (now.kind === "renew" && own !== undefined) own.ends = lease + LIMITS.leaseMs * 1000;
        if (now.kind === "release") {
          seated.delete(id);
          barred.set(id, lease + LIMITS.leaseMs * 1000);
        }
      }
    }
    const counts = await slots.counts(PODS, LIMITS.leaseMs);
    same("counts", [counts.total, ...counts.perPod.values()], [seated.size, ...PODS.map(load)]);
  }
}
