/** A listener of Envoy that goes away while the module waits for a reply of the service: Envoy drops the call without a word. */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, test } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { type EnvoyProcess, startEnvoy } from "../../../support/envoy-process.js";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { type Backend, startBackend } from "../../../support/http-backend.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { startTcpProxy, type TcpProxy } from "../../../support/tcp-proxy.js";
import { pause, waitFor } from "../../../support/wait-for.js";

const LONGER_THAN_A_HEARTBEAT_MS = 1_500;

describeEnvoy("an Envoy whose listener goes away during a call", () => {
  let redis: RedisServer;
  let backend: Backend;
  let service: GatewayProcess;
  let link: TcpProxy;
  let envoy: EnvoyProcess;
  let listener = "";

  beforeAll(async () => {
    redis = await startRedis();
    backend = await startBackend((_request, response) => response.end());
    // Envoy drains the old listener for a second: the call is longer.
    const yaml = `store: ${redis.url}
log: { level: warn }
lease: { timeout_ms: 60000 }
identity: { trusted_hops: ["127.0.0.0/8"] }
upstreams: { backend: { targets: ["127.0.0.1:${backend.port}"] } }
routes: [{ path: /, upstream: backend }]
apps: { default: { guaranteed: 1000, burst: 1000 } }
`;
    service = await startGateway(`node_id: service\nworkers: 1\n${yaml}`);
    link = await startTcpProxy(Number(new URL(service.controlUrl).port));
    envoy = await startEnvoy(yaml, {
      ...{ services: [`127.0.0.1:${link.port}`], node: "envoy", dynamic: true, workers: 1 },
    });
    listener = readFileSync(join(envoy.dir, "listeners.yaml"), "utf8");
  });
  afterAll(async () => {
    await envoy?.stop();
    await link?.stop();
    await service?.stop();
    await backend?.stop();
    await redis?.stop();
  });

  const numberOf = async (name: string) =>
    Number(new RegExp(`${name}: (\\d+)`).exec(await envoy.admin(`/stats?filter=${name}`))?.[1] ?? 0);
  const calls = () => numberOf("cluster.tollgate_control.upstream_rq_total");
  const active = () => numberOf("cluster.tollgate_control.upstream_rq_active");

  function writeListener(version: string, text: string): void {
    const file = join(envoy.dir, "listeners.yaml");
    writeFileSync(`${file}.next`, text.replace(/^version_info: .*$/m, `version_info: "${version}"`));
    renameSync(`${file}.next`, file);
  }

  const passes = async () => (await fetch(envoy.url, { headers: { connection: "close" } })).status === 200;

  beforeEach(async () => {
    await waitFor("a decision", passes);
    link.silenceAll();
    // Messages follow each other within a second, unless one has no reply.
    await waitFor("a call without reply", async () => {
      const before = await calls();
      await pause(LONGER_THAN_A_HEARTBEAT_MS);
      return (await active()) === 1 && (await calls()) === before;
    });
  });

  async function continues(): Promise<void> {
    await waitFor("Envoy to drop the call", async () => (await active()) === 0);
    link.resetAll();
    const before = await calls();
    await waitFor("further calls", async () => (await calls()) >= before + 3);
    await waitFor("a decision", passes);
  }

  test("continues to call the service if the listener is replaced", async () => {
    writeListener("replaced", listener.replace('stat_prefix: "tollgate"', 'stat_prefix: "replaced"'));
    await continues();
  });

  test("continues to call the service if the listener is removed and added again", async () => {
    writeListener("removed", 'version_info: ""\nresources: []\n');
    await waitFor("the listener to be removed", async () => (await active()) === 0);
    writeListener("added", listener);
    await continues();
  });
});
