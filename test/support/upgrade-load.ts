/** The load under which tests upgrade a system, its limits, and what must hold of the responses. */
import { expect } from "vitest";
import type { AppRules, Exchange } from "../../soak/history.js";
import { worstWindow } from "../scenarios/leases.js";
import { startBackend } from "./http-backend.js";
import { startRotatingLoad } from "./rotating-load.js";
import { startSocketLoad } from "./socket-load.js";
import { type SocketPod, startSocketPod } from "./socket-pods.js";
import { waitFor } from "./wait-for.js";

export const CLUSTER = { id: "upgrade", capacity: 20_000, rate: 10_000, nodeTtlMs: 60_000 };
export const MAX_PER_POD = 3;

/** `full` and the user of `keyed` are offered more than their limit, `ample` a tenth of it. */
export const rules: Record<string, AppRules> = {
  ample: { rate: 400, burst: 800, onStoreFailure: "local" },
  full: { rate: 20, burst: 20, onStoreFailure: "open" },
  keyed: { rate: 400, burst: 800, onStoreFailure: "local" },
};
export const perUser: AppRules = { rate: 10, burst: 20, onStoreFailure: "open" };
export const loads = [
  { app: "ample", path: "/", headers: {}, perSecond: 40 },
  { app: "full", path: "/", headers: {}, perSecond: 100 },
  { app: "keyed", path: "/keyed", headers: { "x-user-id": "ann" }, perSecond: 30 },
];

/**
 * Without the store, `full` and the limit admit nothing: their windows hold in any case, and requests that a version could not
 * decide are seen. The timeout is long, because a late reply on a busy machine is no failure of the upgrade.
 */
export function configuration(backend: string, pods: SocketPod[]): string {
  const app = ([name, { rate, burst, onStoreFailure }]: [string, AppRules]) =>
    `  ${name}: { guaranteed: ${rate}, burst: ${burst}, on_store_failure: ${onStoreFailure}, fail_open_tokens: 0, profile: { based_on: iops, bandwidth: 0 } }`;
  return `log: { level: warn }
cluster: { id: ${CLUSTER.id}, capacity: ${CLUSTER.capacity}, rate: ${CLUSTER.rate}, node_ttl_ms: ${CLUSTER.nodeTtlMs} }
timeouts: { shutdown_ms: 5000 }
lease: { timeout_ms: 20000 }
request_limits: { requests_per_client: 0 }
fail_open_tokens: 0
apps:
${Object.entries(rules).map(app).join("\n")}
  sockets: { guaranteed: 1000, burst: 2000 }
limits:
  - { name: per-user, key: [user], rate: ${perUser.rate}/s, burst: ${perUser.burst}, on_store_failure: open, match: { path: [/keyed] } }
upstreams:
  backend: { targets: ["${backend}"] }
  pods: { targets: [${pods.map(({ address }) => `"${address}"`).join(", ")}] }
routes:
  - { path: /, upstream: backend }
  - { path: /ws/, upstream: pods, connections: { max_per_pod: ${MAX_PER_POD}, max_total: 0, rate_per_second: 0, lease_s: 10 } }
`;
}

/** A backend whose responses take a while, so that requests are under way when something is told to end, and WebSocket pods. */
export async function startUpgradeBackends() {
  const backend = await startBackend((_, response) => void setTimeout(() => response.end("ok"), 30));
  let mostOnPod = 0;
  const count = ({ live }: SocketPod) => {
    mostOnPod = Math.max(mostOnPod, live.size);
  };
  const pods = [await startSocketPod(count), await startSocketPod(count)];
  return {
    yaml: configuration(backend.target, pods),
    mostOnPod: () => mostOnPod,
    stop: () => Promise.all([backend.stop(), ...pods.map((pod) => pod.stop())]),
  };
}

export type UpgradeBackends = Awaited<ReturnType<typeof startUpgradeBackends>>;

/** @param mayBeBusy planes whose requests do not wait for a service that a busy machine made slow: see `isRefusal` */
export function startUpgradeLoad(backends: UpgradeBackends, mayBeBusy: string) {
  const startedAt = performance.now();
  const now = () => performance.now() - startedAt;
  const load = startRotatingLoad(loads, now);
  const sockets = startSocketLoad({ urls: () => load.targets().map(({ url }) => `${url}/ws/`), clients: 10 });
  const phases: { from: number; phase: string }[] = [];
  const phaseAt = (at: number) => phases.findLast(({ from }) => from <= at)?.phase ?? "start";

  /**
   * On a busy machine the replies to a plane are late, before, during and after an upgrade. From a mean of 100 ms on, its requests
   * do not wait for the service; `full` and the limit then admit nothing, which is 503. A plane that stays without the store never
   * has enough load. The services' own gateways have a pinned level, and always wait.
   */
  function isRefusal({ app, plane, status, reason }: Exchange): boolean {
    if (status === 429) return true;
    return plane.startsWith(mayBeBusy) && app !== "ample" && status === 503 && reason === "store_unavailable";
  }

  return {
    load,
    now,

    /** Waits until every proxy has admitted requests of every app since now, and refused some above the limits. */
    async loaded(phase: string): Promise<void> {
      phases.push({ from: now(), phase });
      const begin = load.exchanges.length;
      const opened = sockets.opened();
      await waitFor(
        `enough load: ${phase}`,
        () => {
          const since = load.exchanges.slice(begin);
          const has = (app: string, plane: string, status: number) =>
            since.some((one) => one.app === app && one.plane === plane && one.status === status);
          // Long enough for two versions that do not see each other's spending to exceed the limit by half.
          const count = since.filter(({ app }) => app === "full").length;
          const isEverywhere = load.targets().every(({ plane }) => loads.every(({ app }) => has(app, plane, 200)));
          const isRefused = load.targets().every(({ plane }) => has("full", plane, 429) && has("keyed", plane, 429));
          return count >= 400 && isEverywhere && isRefused && sockets.opened() > opened + 5;
        },
        { withinMs: 120_000 },
      );
    },

    async stop(): Promise<void> {
      await sockets.stop();
      await load.stop();
    },

    /** No request has failed, and no limit was exceeded. */
    judge(): void {
      const { exchanges } = load;
      const failed = exchanges.filter((one) => one.status !== 200 && !isRefusal(one));
      const shown = ({ app, plane, status, reason, from }: Exchange) =>
        `${plane} ${app}: ${status} ${reason} at ${(from / 1_000).toFixed(1)} s, ${phaseAt(from)}`;
      expect(failed.map(shown)).toEqual([]);
      expect(exchanges.filter(({ app, status }) => app === "ample" && status !== 200)).toEqual([]);
      expect(backends.mostOnPod()).toBeLessThanOrEqual(MAX_PER_POD);
      expect(sockets.failures()).toEqual([]);
      const fullest = (app: string, { rate, burst }: AppRules) => {
        const own = exchanges
          .filter((one) => one.app === app)
          .map((one) => ({ ...one, sentAt: one.from, at: one.to, error: "" }));
        return worstWindow(own, rate, burst);
      };
      expect(fullest("full", rules.full!)).toBeLessThanOrEqual(1);
      expect(fullest("keyed", perUser)).toBeLessThanOrEqual(1);
    },
  };
}
