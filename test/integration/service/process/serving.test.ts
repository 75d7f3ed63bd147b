/** /health/serving says whether the service can decide, if only by policy; /health/ready also requires the store. */
import { expect, it, onTestFinished } from "vitest";
import { startGateway } from "../../../support/gateway-process.js";
import { startBackend } from "../../../support/http-backend.js";
import { startRedis } from "../../../support/redis-server.js";
import { waitFor } from "../../../support/wait-for.js";

it("without Redis a gateway is not ready, but serves by the policy of its apps", async () => {
  const redis = await startRedis();
  onTestFinished(() => redis.stop());
  const backend = await startBackend((_, response) => void response.end("hello"));
  onTestFinished(() => backend.stop());
  const gateway = await startGateway(`
store: ${redis.url}
workers: 1
apps: { default: { guaranteed: 1000, on_store_failure: open } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`);
  onTestFinished(() => gateway.stop());
  const probe = async (path: string) => (await fetch(`${gateway.controlUrl}/health/${path}`)).status;
  expect([await probe("ready"), await probe("serving")]).toEqual([200, 200]);
  await redis.kill();
  await waitFor("not ready", async () => (await probe("ready")) === 503);
  expect(await probe("serving")).toBe(200);
  expect((await fetch(gateway.url)).status).toBe(200);
}, 90_000);
