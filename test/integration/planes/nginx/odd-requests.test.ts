/** Unusual and malformed requests get the same status from nginx as from the Node gateway, except for documented differences. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ambiguousPaths, type OddRequest, oddPaths, oddRequests } from "../../../scenarios/odd-requests.js";
import {
  type GatewayProcess,
  type SmallBackend,
  startGateway,
  startSmallBackend,
} from "../../../support/gateway-process.js";
import { openRaw } from "../../../support/http-client.js";
import { type NginxProcess, startNginx } from "../../../support/nginx-process.js";

let backend: SmallBackend;
let gateway: GatewayProcess;
let nginx: NginxProcess;

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
  gateway = await startGateway(yaml);
  nginx = await startNginx(yaml, { services: [gateway.controlUrl.replace("http://", "")] });
}

async function stop(): Promise<void> {
  await nginx?.stop();
  await gateway?.stop();
  await backend?.stop();
}

/** Returns the statuses of all responses, and how many requests reached the backend. */
async function send(port: number, bytes: string): Promise<{ statuses: number[]; passed: number }> {
  const before = backend.requests();
  const client = await openRaw(port);
  client.write(bytes);
  const text = await client.closed();
  const statuses = [...text.matchAll(/HTTP\/1\.\d (\d{3}) /g)].map(([, status]) => Number(status));
  return { statuses, passed: backend.requests() - before };
}

async function expectDocumented({ bytes, node, nginx: other }: OddRequest): Promise<void> {
  const onNode = await send(Number(new URL(gateway.url).port), bytes);
  expect(onNode).toEqual({ statuses: [node], passed: node === 200 ? 1 : 0 });
  const status = other?.status ?? node;
  expect(await send(nginx.port, bytes)).toEqual({ statuses: [status], passed: status === 200 ? 1 : 0 });
}

describe("nginx and the Node gateway", () => {
  beforeAll(() => start(""));
  afterAll(stop);
  it.each([...oddRequests, ...oddPaths])("handle an unusual request as documented: $name", expectDocumented);
});

describe("with request_limits.path: strict, nginx and the Node gateway", () => {
  beforeAll(() => start("request_limits: { path: strict }"));
  afterAll(stop);
  it.each(ambiguousPaths)("reject ambiguous paths: $name", expectDocumented);
});
