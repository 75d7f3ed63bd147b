/** The servers of one scenario: a store, a backend and a plane, started and stopped together. */
import { createQuota } from "../../src/quota/quota.js";
import { createEmbeddedStore } from "../../src/store/embedded/embedded-store.js";
import { createRedisStore } from "../../src/store/redis/redis-store.js";
import { type SmallBackend, startSmallBackend } from "../support/gateway-process.js";
import { type PlaneKind, type PlaneOptions, type PlaneUnderTest, preparePlane, startPlane } from "../support/planes.js";
import { type ScenarioStore, startScenarioStore } from "./scenario-store.js";

const CLUSTER = "id: scenario, node_ttl_ms: 3000, reconcile_interval_ms: 1000";
/** What a scenario reads and orders itself must not fail on a busy machine. */
const DIRECT_MS = 30_000;
/** A request costs one token, whatever its size. */
export const BY_REQUEST = "profile: { based_on: iops, bandwidth: 0 }";

export interface Fixture {
  plane: PlaneUnderTest;
  store: ScenarioStore;
  backend: SmallBackend;
  /** Not usable with the embedded store. */
  quota: ReturnType<typeof createQuota>;
  /** Tokens that the store counts as held by the nodes of one instance. */
  heldBy(instance: number): Promise<number>;
  stop(): Promise<void>;
}

export interface FixtureOptions extends Partial<Pick<PlaneOptions, "instances" | "workers">> {
  /** The content of `apps: { … }`. */
  apps: string;
  yaml?: string;
  /** Paths of further routes to the backend. */
  paths?: string[];
}

export async function startFixture(kind: PlaneKind, options: FixtureOptions): Promise<Fixture> {
  preparePlane(kind);
  const endings: (() => unknown)[] = [];
  const stop = async () => {
    for (const end of endings.splice(0).reverse()) await end();
  };
  try {
    const store = await startScenarioStore();
    endings.push(() => store.stop());
    const backend = await startSmallBackend();
    endings.push(() => backend.stop());
    const { shards, directUrl } = store;
    const direct =
      directUrl === undefined ? createEmbeddedStore() : createRedisStore({ url: directUrl, deadlineMs: DIRECT_MS });
    endings.push(() => direct.close());
    const limits = { id: "scenario", capacity: 1_000_000, rate: 500_000, nodeTtlMs: 3000, shards };
    const quota = createQuota(direct, limits);
    const plane = await startPlane(kind, {
      instances: options.instances ?? 2,
      workers: options.workers ?? 2,
      store: store.url,
      backend: backend.target,
      paths: options.paths ?? [],
      yaml: `cluster: { ${CLUSTER}, shards: ${shards} }\napps: { ${options.apps} }\n${options.yaml ?? ""}`,
    });
    endings.push(() => plane.stop());
    return {
      plane,
      store,
      backend,
      quota,
      stop,
      async heldBy(instance) {
        const nodes = (await quota.nodes()).filter(({ node }) => node.startsWith(`${kind}-${instance}`));
        const ledgers = await Promise.all(nodes.map(({ node }) => quota.ledger(node)));
        return ledgers.reduce((sum, { held }) => sum + held, 0);
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
