/** Operators see the limits of connections that apply, as numbers: also those that are a default of the configuration. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { connectionsReply } from "../../../../src/service/operations/contract/contract.js";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";

const TOKEN = "an-admin-token-0123456";

let service: GatewayProcess;
beforeAll(async () => {
  const yaml = `
workers: 1
log: { level: warn }
upstreams: { pods: { targets: ["10.0.0.1:80", "10.0.0.2:80"] } }
routes:
  - { path: /default/, upstream: pods, connections: { max_per_pod: 60, max_total: 100 } }
  - { path: /small/, upstream: pods, connections: { max_per_pod: 2 } }
  - { path: /own/, upstream: pods, connections: { max_total: 0, max_per_app: 7, max_per_client: 3 } }
  - { path: /off/, upstream: pods, connections: { max_per_client: 0 } }
`;
  service = await startGateway(yaml, { control: `admin_token: ${TOKEN}` });
});
afterAll(() => service?.stop());

it("each route has its limits in total, per app and per client", async () => {
  const response = await fetch(`${service.controlUrl}/admin/ratelimit/connections`, {
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  const { routes } = connectionsReply.parse(await response.json());
  const limits = routes.map(({ route, limit, max_per_app, max_per_client }) => [
    ...[route, limit, max_per_app, max_per_client],
  ]);
  // By default a quarter of the slots, at least 20, but at most half of them.
  expect(limits).toEqual([
    ["/default/", 100, 0, 25],
    ["/small/", 1000, 0, 2],
    ["/own/", 0, 7, 3],
    ["/off/", 1000, 0, 0],
  ]);
});
