/** The OpenAPI document matches the running listener: it has every endpoint, and every reply conforms to it. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import { createRedisStore } from "../../../../src/store/redis/redis-store.js";
import type { Store } from "../../../../src/store/store.js";
import { type ControlServer, PLANE_TOKEN, startControl } from "../../../support/control-server.js";
import { schemaFaults } from "../../../support/json-schema.js";
import { appReport, nodeReport, refusalReport } from "../../../support/node-reports.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";

type Json = Record<string, unknown>;
interface Operation {
  responses: Record<string, { content: Record<string, { schema: Json }> }>;
  requestBody?: { required: boolean; content: Record<string, { schema: Json }> };
  security?: Json[];
}
type Document = Json & { paths: Record<string, Record<string, Operation>> };

const admin = "/admin/ratelimit";
const sync = { node: "p", epoch: 1, seq: 1, apps: [{ app: "video", granted: 0, spent: 0, need: 1, want: 10 }] };

/** Calls each endpoint at least once correctly, and some incorrectly. */
const made: [call: string, status: number, body?: unknown, headers?: Record<string, string>][] = [
  ["GET /health/live", 200],
  ["GET /health/ready", 200],
  ["GET /health/serving", 200],
  ["GET /health/deep", 200],
  ["GET /openapi.json", 200],
  ["GET /metrics", 200],
  ["POST /v1/sync", 200, sync, { authorization: `Bearer ${PLANE_TOKEN}` }],
  [
    "POST /v1/sync",
    200,
    "p 1 2\nvideo 10 0 0 0 0",
    { authorization: `Bearer ${PLANE_TOKEN}`, "content-type": "text/plain" },
  ],
  ["POST /v1/sync", 403, sync],
  ["POST /v1/sync", 400, "{", { authorization: `Bearer ${PLANE_TOKEN}` }],
  [`GET ${admin}/status`, 200],
  [`GET ${admin}/status`, 401, undefined, { authorization: "Bearer no" }],
  [`GET ${admin}/degradation`, 200],
  [`POST ${admin}/degradation`, 200, { level: 1, reason: "r" }],
  [`POST ${admin}/degradation`, 400, { level: 9 }],
  [`GET ${admin}/degradation`, 200],
  [`GET ${admin}/status`, 200],
  [`DELETE ${admin}/degradation`, 200],
  [`GET ${admin}/emergency`, 200],
  [`POST ${admin}/emergency`, 200, { action: "activate", duration_seconds: 0 }],
  [`GET ${admin}/emergency`, 200],
  [`GET ${admin}/status`, 200],
  [`POST ${admin}/emergency`, 200, { action: "deactivate" }],
  [`GET ${admin}/cluster`, 200],
  [`POST ${admin}/cluster`, 200, { action: "refill" }],
  [`POST ${admin}/reconcile`, 200, {}],
  [`POST ${admin}/reconcile`, 200],
  [`POST ${admin}/reconcile`, 200, { app_id: "video", force: true }],
  [`POST ${admin}/reconcile`, 404, { app_id: "vidoe" }],
  [`POST ${admin}/borrow`, 200, { app_id: "loans", amount: 5 }],
  [`POST ${admin}/borrow`, 200, { app_id: "video", amount: 5 }],
  [`POST ${admin}/borrow`, 404, { app_id: "nobody", amount: 5 }],
  [`POST ${admin}/repay`, 200, { app_id: "loans", amount: 5 }],
  [`GET ${admin}/apps`, 200],
  [`GET ${admin}/apps?limit=1&offset=1`, 200],
  [`GET ${admin}/apps?limit=0`, 400],
  [`GET ${admin}/apps/video`, 200],
  [`GET ${admin}/apps/batch`, 200],
  [`GET ${admin}/apps/nobody`, 404],
  [`GET ${admin}/connections`, 200],
  [`GET ${admin}/config`, 200],
  [`PUT ${admin}/config`, 200, { config: { apps: { extra: { guaranteed: 5 } } } }],
  [`PUT ${admin}/config`, 409, { config: {}, expected_revision: 77 }],
  [`PUT ${admin}/config`, 422, { config: { apps: { extra: { guaranteed: -5 } } } }],
  [`POST ${admin}/config/restore`, 200, {}],
  [`DELETE ${admin}/config`, 200],
  [`GET ${admin}/config/effective`, 200],
  [`POST ${admin}/config/what-if`, 200, { yaml: "apps: { video: { guaranteed: 5 } }" }],
  [`POST ${admin}/config/what-if`, 200, { yaml: "apps: 1" }],
  [`POST ${admin}/config/what-if`, 400, {}],
  [`GET ${admin}/audit`, 200],
  [`GET ${admin}/limits`, 200],
  [`GET ${admin}/limits/none`, 404],
  [`POST ${admin}/limits/none/reset`, 404, { value: "a" }],
  [`POST ${admin}/limits/none/top-up`, 404, { value: "a", amount: 1 }],
  [`POST ${admin}/reload`, 200, { source: "all", force: true }],
  [`POST ${admin}/reload`, 415, "source=all", { "content-type": "application/x-www-form-urlencoded" }],
];

const reports = [nodeReport(), nodeReport({ node: "gw-2", level: 1 })];
const appReports = [[appReport()], [appReport({ node: "gw-2", lastRefusals: [refusalReport({ dryRun: true })] })]];

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

const stores: [string, () => Store][] = [
  ["embedded", () => createEmbeddedStore()],
  ["redis", () => createRedisStore({ url: redis.url, deadlineMs: 2_000 })],
];

describe.each(stores)("over the %s store", (_name, open) => {
  let store: Store;
  let control: ControlServer;
  let document: Document;
  beforeAll(async () => {
    store = open();
    control = await startControl(store, { reports, appReports });
    document = (await (await fetch(`${control.url}/openapi.json`)).json()) as Document;
  });
  afterAll(async () => {
    await control.close();
    await store.close();
  });

  const operationOf = (method: string, path: string): Operation => {
    const known = path
      .split("?", 1)[0]!
      .replace(/\/apps\/[^/]+$/, "/apps/{id}")
      .replace(/\/limits\/[^/]+/, "/limits/{name}");
    const found = document.paths[known]?.[method.toLowerCase()];
    if (found === undefined) throw new Error(`${method} ${known} is not in the document`);
    return found;
  };

  it.each(made)("%s → %i conforms to the document", async (call, status, body, headers) => {
    const [method = "", path = ""] = call.split(" ");
    const { responses, requestBody } = operationOf(method, path);
    const response = await control.call(method, path, body, headers);
    const text = await response.text();
    expect(response.status, text).toBe(status);
    const type = (response.headers.get("content-type") ?? "").split(";", 1)[0]!;
    const described = responses[String(status)]?.content[type];
    expect(described, `${status} ${type} is not in the document`).toBeDefined();
    const value = type === "application/json" ? JSON.parse(text) : text;
    expect(schemaFaults(value, described?.schema ?? {}, document)).toEqual([]);
    const asked = requestBody?.content["application/json"];
    if (status === 200 && asked !== undefined && typeof body === "object") {
      expect(schemaFaults(body, asked.schema, document), "the request").toEqual([]);
    }
  });

  it("every endpoint of the document was called, and there are no others", () => {
    const described = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const called = made.map(([call]) =>
      call
        .split("?", 1)[0]!
        .replace(/\/apps\/[^/]+$/, "/apps/{id}")
        .replace(/\/limits\/[^/]+/, "/limits/{name}"),
    );
    expect(new Set(called)).toEqual(new Set(described));
  });

  it("states the required token", () => {
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, { security }] of Object.entries(methods)) {
        const isRead = method === "get" || path.endsWith("/what-if");
        const operators = isRead ? [{ admin: [] }, { viewer: [] }] : [{ admin: [] }];
        const wanted = path.startsWith(admin) ? operators : path.startsWith("/v1/") ? [{ plane: [] }] : undefined;
        expect(security, `${method} ${path}`).toEqual(wanted);
      }
    }
  });
});

describe("the document", () => {
  it("is checked by a validator that detects wrong replies", () => {
    const schema = {
      ...{ type: "object", required: ["a"], additionalProperties: false },
      properties: { a: { type: "integer", minimum: 0 }, b: { anyOf: [{ type: "string" }, { type: "null" }] } },
    };
    expect(schemaFaults({ a: 1, b: null }, schema, {})).toEqual([]);
    expect(schemaFaults({ a: -1 }, schema, {})).toHaveLength(1);
    expect(schemaFaults({ a: 0.5, b: 2, c: 3 }, schema, {})).toHaveLength(3);
    expect(schemaFaults({}, schema, {})).toHaveLength(1);
  });
});
