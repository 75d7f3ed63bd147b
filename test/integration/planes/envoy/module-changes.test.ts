/** What changes while Envoy's dynamic module is under load: scripts, listeners, processes, the number of workers. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { type EnvoyProcess, startEnvoy } from "../../../support/envoy-process.js";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { type Backend, startBackend } from "../../../support/http-backend.js";
import { passedOf, startHttpLoad } from "../../../support/http-load.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { waitFor } from "../../../support/wait-for.js";

const [RATE, BURST] = [100, 100];

describeEnvoy("Envoy's dynamic module under load", () => {
  let redis: RedisServer;
  let backend: Backend;
  let service: GatewayProcess;
  const configuration = (app: string, keepAliveMs = 60_000) => `store: ${redis.url}
log: { level: warn }
lease: { timeout_ms: 10000 }
timeouts: { keep_alive_ms: ${keepAliveMs} }
identity: { trusted_hops: ["127.0.0.0/8"] }
upstreams: { backend: { targets: ["127.0.0.1:${backend.port}"] } }
routes: [{ path: /, upstream: backend }]
apps:
  default: { guaranteed: 1000, burst: 1000 }
  ${app}: { guaranteed: ${RATE}, burst: ${BURST}, on_store_failure: closed, profile: { based_on: iops, bandwidth: 0 } }
`;

  beforeAll(async () => {
    redis = await startRedis();
    backend = await startBackend((_request, response) => response.end());
    const apps = `  restarted: { guaranteed: ${RATE}, burst: ${BURST}, on_store_failure: closed, profile: { based_on: iops, bandwidth: 0 } }\n`;
    service = await startGateway(`node_id: service\nworkers: 1\n${configuration("changed")}${apps}`);
  });

  afterAll(async () => {
    await service?.stop();
    await backend?.stop();
    await redis?.stop();
  });

  async function changeUnderLoad(
    app: string,
    dynamic: boolean,
    changes: ((envoy: EnvoyProcess) => Promise<void>)[],
  ): Promise<void> {
    const services = [service.controlUrl.replace("http://", "")];
    const envoy = await startEnvoy(configuration(app), { services, mode: "module", node: "envoy-0", dynamic });
    try {
      const load = startHttpLoad(envoy.url, app, 3 * RATE);
      const { answers } = load;
      for (const change of changes) {
        await change(envoy);
        const before = passedOf(answers).length;
        await waitFor("requests to pass after it", () => passedOf(answers).length >= before + 50);
      }
      await waitFor("the limit to be reached", () => answers.some(({ status }) => status === 429));
      await load.stop();
      const first = Math.min(...answers.map(({ sentAt }) => sentAt));
      const seconds = (Math.max(...passedOf(answers).map(({ at }) => at)) - first) / 1000;
      expect(passedOf(answers).length).toBeLessThanOrEqual(BURST + RATE * seconds);
      // On a busy machine the store can seem slow: then requests get 503.
      const statuses = new Set(answers.map(({ status }) => status));
      expect([...statuses].filter((status) => status !== 0 && status !== 503).sort()).toEqual([200, 429]);
      // Envoy closes idle connections of a listener that it replaces: a request that is sent at that moment can fail.
      for (const { status, error } of answers) {
        if (status === 0) expect(error).toMatch(/other side closed|ECONNRESET|EPIPE/);
      }
    } finally {
      await envoy.stop();
    }
  }

  test("new scripts and listeners: requests are decided, and the limit holds all the time", async () => {
    const updated =
      (count: number) =>
      async ({ reload, admin }: EnvoyProcess) => {
        await reload(configuration("changed", 60_000 + count));
        await waitFor("the listener to be another one", async () =>
          (await admin("/stats?filter=listener_in_place_updated")).includes(`: ${count}`),
        );
      };
    const sameListener = ({ reload }: EnvoyProcess) => reload(configuration("changed", 60_002));
    await changeUnderLoad("changed", true, [updated(1), updated(2), sameListener, sameListener]);
  });

  test("hot restarts with more or fewer workers: requests are decided, and the limit holds all the time", async () => {
    const withWorkers =
      (count: number) =>
      async ({ reload, admin }: EnvoyProcess) => {
        await reload(undefined, count);
        expect(JSON.parse(await admin("/server_info")).command_line_options.concurrency).toBe(count);
      };
    await changeUnderLoad("restarted", false, [withWorkers(4), withWorkers(1)]);
  });
});
