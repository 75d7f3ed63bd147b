/** Three gateway processes on one Redis: together they keep the limit and use it. */
import { afterEach, describe, expect, it } from "vitest";
import { createQuota } from "../../src/quota/quota.js";
import { createRedisStore } from "../../src/store/redis/redis-store.js";
import { type GatewayProcess, workersOf } from "../support/gateway-process.js";
import { loadUntilPassed, passedOf, sendLoad } from "../support/http-load.js";
import { startThreeGateways } from "../support/three-gateways.js";
import { waitFor } from "../support/wait-for.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

const SHARES = [0.8, 0.15, 0.05];

describe("three gateways that share a limit, with load 80/15/5", () => {
  it.each([
    { rate: 200, burst: 200, load: 500 },
    { rate: 20, burst: 20, load: 100 },
  ])("of $rate tokens/s: in every 10 s at most burst + rate × time, and the refill is used", async (limit) => {
    const { rate, burst, load } = limit;
    // Without a cost for bytes, a request costs one token.
    const profile = "profile: { based_on: iops, bandwidth: 0 }";
    const { gateways } = await startThreeGateways(
      endings,
      `metered: { guaranteed: ${rate}, burst: ${burst}, on_store_failure: closed, ${profile} }`,
    );
    const answers = await loadUntilPassed(
      gateways.map(({ url }, i) => ({ url, perSecond: load * SHARES[i]! })),
      "metered",
      burst + 12 * rate,
    );
    // On a busy machine the store can seem slow for a while: 503.
    for (const { status } of answers) expect([200, 429, 503]).toContain(status);
    const passed = passedOf(answers);
    for (const { sentAt: from } of passed.filter((_, i) => i % 50 === 0)) {
      // Sent and answered within the window, so the decision was made within it.
      const within = passed.filter(({ sentAt, at }) => sentAt >= from && at < from + 10_000).length;
      expect(within, `from ${from}`).toBeLessThanOrEqual(burst + rate * 10);
    }
    const elapsed = (Math.max(...passed.map(({ at }) => at)) - Math.min(...answers.map(({ sentAt }) => sentAt))) / 1000;
    expect(passed.length).toBeLessThanOrEqual(burst + rate * elapsed);
  });

  it("continue when one is killed with SIGKILL; its tokens are returned once, after node_ttl_ms and a reconcile", async () => {
    const cluster = "cluster: { node_ttl_ms: 3000, reconcile_interval_ms: 1000 }";
    const { server, gateways } = await startThreeGateways(endings, "metered: { guaranteed: 200, burst: 200 }", cluster);
    const store = createRedisStore(server.url);
    endings.push(() => store.close());
    const quota = createQuota(store, { id: "cluster-01", capacity: 1_000_000, rate: 500_000, nodeTtlMs: 3000 });
    const [first, second] = gateways as [GatewayProcess, GatewayProcess];
    await sendLoad(first.url, "metered", 50, 1);
    // A killed process cannot return the tokens it holds.
    const name = (await quota.nodes()).find(({ node }) => node.startsWith("gw-1-1@"))!.node;
    for (const pid of [...workersOf(first.pid), first.pid]) process.kill(pid, "SIGKILL");
    const left = await quota.ledger(name);
    expect(left).toMatchObject({ closed: false });
    expect(left.held).toBeGreaterThan(0);
    const answers = await sendLoad(second.url, "metered", 50, 2);
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    await waitFor("the dead node to be removed", async () => {
      const nodes = await quota.nodes();
      return nodes.length > 0 && !nodes.some(({ node }) => node === name);
    });
    expect(await quota.ledger(name)).toMatchObject({ closed: true, held: 0 });
    const returned = (apps: { returned: number }[]) => apps.reduce((sum, app) => sum + app.returned, 0);
    expect(returned((await quota.ledger(name)).apps)).toBe(returned(left.apps) + left.held);
  });

  it("stop on SIGTERM under load without failing a request, with exit code 0", async () => {
    const { gateways, backend } = await startThreeGateways(endings, "ample: { guaranteed: 100000, burst: 100000 }");
    const [first] = gateways as [GatewayProcess];
    const before = backend.requests();
    const loading = sendLoad(first.url, "ample", 200, 4);
    await waitFor("requests to pass", () => backend.requests() - before > 50);
    first.kill("SIGTERM");
    expect(await first.ended).toBe(0);
    const answers = await loading;
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(backend.requests() - before);
    // After the gateway has stopped, connections are refused. Accepted requests were answered.
    const failures = answers.filter(({ status }) => status !== 200).map(({ error }) => error);
    for (const failure of failures) expect(failure).toMatch(/ECONNREFUSED|other side closed|ECONNRESET/);
  });
});
