/** Unusual and malformed requests get the same status from Envoy as from the Node gateway, except for documented differences. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { ambiguousPaths, type OddRequest, oddPaths, oddRequests } from "../../../scenarios/odd-requests.js";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { type EnvoyProcess, startEnvoy } from "../../../support/envoy-process.js";
import {
  type GatewayProcess,
  type SmallBackend,
  startGateway,
  startSmallBackend,
} from "../../../support/gateway-process.js";
import { openRaw } from "../../../support/http-client.js";

/** By default, Envoy waits a second before it closes the connection of a rejected request. */
const closeSoon = (text: string) =>
  text.replace(/^( *)stat_prefix: "tollgate"$/m, '$&\n$1delayed_close_timeout: "0.02s"');

let backend: SmallBackend;
let service: GatewayProcess;
let envoy: EnvoyProcess;

async function start(more: string): Promise<void> {
  backend = await startSmallBackend();
  const yaml = `
store: embedded
workers: 1
apps: { video: { guaranteed: 100000 }, default: { guaranteed: 100000 } }
log: { level: silent }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
${more}`;
  service = await startGateway(yaml);
  const services = [service.controlUrl.replace("http://", "")];
  envoy = await startEnvoy(yaml, { services, workers: 1, edit: closeSoon });
}

async function stop(): Promise<void> {
  await envoy?.stop();
  await service?.stop();
  await backend?.stop();
}

/** Returns the statuses of all responses, and how many requests reached the backend. */
async function send(bytes: string): Promise<{ statuses: number[]; passed: number }> {
  const before = backend.requests();
  const client = await openRaw(envoy.port);
  client.write(bytes);
  const text = await client.closed();
  const statuses = [...text.matchAll(/HTTP\/1\.\d (\d{3}) /g)].map(([, status]) => Number(status));
  return { statuses, passed: backend.requests() - before };
}

async function expectDocumented({ bytes, node, envoy: other }: OddRequest): Promise<void> {
  const { statuses, passed } = await send(bytes);
  // Envoy 1.38 differs less: it does not resolve `..;`, which is then refused as by the Node gateway.
  expect([[other?.status ?? node], [node]]).toContainEqual(statuses);
  expect(passed).toBe(statuses[0] === 200 ? 1 : 0);
}

describeEnvoy("Envoy", () => {
  beforeAll(() => start(""));
  afterAll(stop);
  it.each([...oddRequests, ...oddPaths])("handles an unusual request as documented: $name", expectDocumented);
});

describeEnvoy("Envoy with request_limits.path: strict", () => {
  beforeAll(() => start("request_limits: { path: strict }"));
  afterAll(stop);
  it.each(ambiguousPaths)("rejects ambiguous paths: $name", expectDocumented);
});
