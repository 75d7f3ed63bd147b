/** The ledgers of the store after all nodes have stopped. */
import { createQuota } from "../src/quota/quota.js";
import { openStore } from "../src/store/open.js";
import { waitFor } from "../test/support/wait-for.js";
import type { Ledger } from "./history.js";
import { CLUSTER, NODE_TTL_MS, rules, type World } from "./world.js";

/**
 * Stops all planes. A service that is started again returns the tokens of dead nodes, and has no load of its own.
 * Tokens that are still on leases after a time are left for the verdict.
 */
export async function readLedgers(world: World): Promise<Ledger[]> {
  await world.nginx().quit();
  await world.envoy.killAll();
  for (const i of [0, 1]) {
    world.service(i).kill("SIGTERM");
    await world.service(i).ended;
  }
  await world.restartService(0);
  const store = openStore(world.redis.url);
  const quota = createQuota(store, { ...CLUSTER, nodeTtlMs: NODE_TTL_MS });
  const read = () =>
    Promise.all(
      Object.entries(rules).map(async ([app, { rate, burst }]): Promise<Ledger> => {
        const limits = { id: app, guaranteed: rate, burst, priority: 2, borrow: false };
        const { tokens, granted, spent, returned } = await quota.inspect(limits);
        return { app, tokens, held: granted - spent - returned, spent };
      }),
    );
  await waitFor("all leases to be returned", async () => (await read()).every(({ held }) => held === 0)).catch(
    () => {},
  );
  const ledgers = await read();
  await store.close();
  return ledgers;
}
