/** Envoy's Access Log Service, called with the official messages by grpc-js. */
import { fileURLToPath } from "node:url";
import {
  type ClientWritableStream,
  credentials,
  type GrpcObject,
  loadPackageDefinition,
  Metadata,
  type ServiceClientConstructor,
  status,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { request } from "undici";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EnvoyAccess } from "../../../src/envoy-service/access.js";
import type { EnvoySocket } from "../../../src/envoy-service/access-log/route-connections.js";
import { createAccessLogService } from "../../../src/envoy-service/access-log/service.js";
import type { FinishedExchange } from "../../../src/envoy-service/access-log/settlement.js";
import { type ListenerUnderTest, startEnvoyListener } from "../../support/envoy-listener.js";
import { ADMIN_TOKEN, startGateway, startSmallBackend } from "../../support/gateway-process.js";
import { freePort } from "../../support/ports.js";
import { waitFor } from "../../support/wait-for.js";

const deps = fileURLToPath(new URL("../../../node_modules/@grpc/grpc-js-xds/deps/", import.meta.url));
const includeDirs = ["envoy-api", "xds", "protoc-gen-validate", "googleapis"].map((name) => `${deps}${name}`);
const definition = loadPackageDefinition(
  loadSync("envoy/service/accesslog/v3/als.proto", { includeDirs, keepCase: true, longs: String, enums: String }),
);
const service = "envoy.service.accesslog.v3.AccessLogService"
  .split(".")
  .reduce<GrpcObject>((scope, name) => scope[name] as GrpcObject, definition) as unknown as ServiceClientConstructor;

const handled: { alive: [EnvoySocket, string][]; ended: EnvoySocket[]; settled: FinishedExchange[]; warnings: number } =
  {
    alive: [],
    ended: [],
    settled: [],
    warnings: 0,
  };
let listener: ListenerUnderTest;
let access: EnvoyAccess;
let client: InstanceType<ServiceClientConstructor>;

beforeEach(async () => {
  Object.assign(handled, { alive: [], ended: [], settled: [], warnings: 0 });
  const method = createAccessLogService({
    connections: {
      alive: (socket, node) => void handled.alive.push([socket, node]),
      ended: (socket) => void handled.ended.push(socket),
    },
    settle: (settlement) => void handled.settled.push(settlement),
    log: { debug() {}, info() {}, warn: () => void handled.warnings++, error() {} },
  });
  access = { planeToken: "the-token-of-the-planes", allow: ["127.0.0.0/8"] };
  listener = await startEnvoyListener({
    descriptors: { decide: () => never() },
    methods: [method],
    access: () => access,
  });
  client = new service(listener.address, credentials.createInsecure());
});
afterEach(async () => {
  client.close();
  await listener.close();
});

function never(): never {
  throw new Error("not called in this test");
}

interface Log {
  write(message: unknown): void;
  /** Ends the stream and returns the status. */
  end(): Promise<number>;
}

function openLog(token = "the-token-of-the-planes", to = client): Log {
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${token}`);
  let answered: (code: number) => void;
  const answer = new Promise<number>((resolve) => {
    answered = resolve;
  });
  const stream = to.StreamAccessLogs!(metadata, (error: { code: number } | null) =>
    answered(error?.code ?? status.OK),
  ) as ClientWritableStream<unknown>;
  stream.on("error", () => undefined);
  return {
    write: (message) => void stream.write(message),
    end() {
      stream.end();
      return answer;
    },
  };
}

const identifier = { node: { id: "edge-1", cluster: "tollgate" }, log_name: "tollgate" };
const text = (value: string) => ({ stringValue: value });

function entry(
  type: string,
  marks: Record<string, unknown>,
  more: { status?: number; sent?: number; got?: number } = {},
) {
  return {
    common_properties: {
      access_log_type: type,
      upstream_cluster: "sockets",
      duration: { seconds: 3 },
      metadata: { filter_metadata: { "envoy.lb": { fields: { x: text("y") } }, tollgate: { fields: marks } } },
    },
    request: { path: "/ws/", request_body_bytes: more.got ?? 0, request_headers: { a: "b" } },
    response: { response_code: { value: more.status ?? 101 }, response_body_bytes: more.sent ?? 0 },
  };
}

const marks = {
  connection: text("17"),
  proxy: text("envoy-0-12ab"),
  pod: text("10.0.0.1:80"),
  app: text("chat"),
  route: text("/ws/"),
};
const socket = { connection: "17", proxy: "envoy-0-12ab", pod: "10.0.0.1:80", app: "chat", route: "/ws/" };
const paid = { app: text("chat"), paid: { numberValue: 5 }, method: text("GET"), settle: { boolValue: true } };
const logs = (...entries: unknown[]) => ({ http_logs: { log_entry: entries } });

describe("the access log service", () => {
  it("handles open and ended connections with the name of their Envoy", async () => {
    const log = openLog();
    log.write({ identifier, ...logs(entry("DownstreamPeriodic", marks)) });
    log.write(logs(entry("DownstreamPeriodic", marks), entry("DownstreamEnd", marks)));
    expect(await log.end()).toBe(status.OK);
    expect(handled.alive).toEqual([
      [socket, "edge-1"],
      [socket, "edge-1"],
    ]);
    expect(handled.ended).toEqual([socket]);
    expect(handled.settled).toEqual([]);
  });

  it("settles marked exchanges once, at their end, also those of tunnels", async () => {
    const log = openLog();
    const moved = { got: 1_000, sent: 70_000 };
    const tunnel = { ...marks, ...paid, method: text("UPGRADE") };
    log.write({
      identifier,
      ...logs(
        entry("DownstreamPeriodic", tunnel, moved),
        entry("DownstreamEnd", paid, { ...moved, status: 200 }),
        entry("DownstreamEnd", { ...paid, settle: { boolValue: false } }, { ...moved, status: 200 }),
        entry("DownstreamEnd", tunnel, { ...moved, status: 101 }),
      ),
    });
    expect(await log.end()).toBe(status.OK);
    expect(handled.settled).toEqual([
      {
        app: "chat",
        route: "",
        method: "GET",
        paid: 5,
        node: "",
        reportedCost: -1,
        requestBytes: 1_000,
        responseBytes: 70_000,
      },
      {
        app: "chat",
        route: "/ws/",
        method: "UPGRADE",
        paid: 5,
        node: "",
        reportedCost: -1,
        requestBytes: 1_000,
        responseBytes: 70_000,
      },
    ]);
  });

  it("ignores other entries", async () => {
    const log = openLog();
    log.write({
      identifier,
      tcp_logs: { log_entry: [{ common_properties: { access_log_type: "TcpConnectionEnd" } }] },
    });
    log.write(logs({}, { common_properties: { access_log_type: "DownstreamEnd" } }));
    log.write(logs(entry("DownstreamStart", marks), entry("DownstreamEnd", { ...marks, connection: text("") })));
    log.write(
      logs(entry("DownstreamEnd", { ...marks, exchange: { numberValue: 3 }, other: { nullValue: "NULL_VALUE" } })),
    );
    expect(await log.end()).toBe(status.OK);
    expect([handled.alive, handled.ended, handled.settled]).toEqual([[], [socket], []]);
  });

  it("ignores invalid entries and handles the others", async () => {
    const log = openLog();
    const wrong = [
      { ...marks, connection: text("with spaces") },
      { ...marks, proxy: text("") },
      { ...marks, app: text("x".repeat(129)) },
      { ...marks, pod: text("a\nb") },
      { ...marks, connection: { listValue: { values: [text("1")] } }, settle: { boolValue: true } },
      ...[-1, 0.5, Number.NaN, 1e308].map((value) => ({ ...paid, paid: { numberValue: value } })),
      { ...paid, method: text("") },
      { ...paid, app: text("{}") },
      { ...paid, node: text("edge-1") },
      { ...paid, node: text("edge 1@1") },
    ].map((odd) => entry("DownstreamEnd", odd));
    log.write({ identifier: { node: { id: "an envoy\n" } }, ...logs(...wrong, entry("DownstreamPeriodic", marks)) });
    expect(await log.end()).toBe(status.OK);
    expect([handled.ended, handled.settled]).toEqual([[], []]);
    expect(handled.alive).toEqual([[socket, "envoy"]]);
    expect(handled.warnings).toBe(wrong.length);
  });

  it("handles entries while the stream is open", async () => {
    const log = openLog();
    log.write({ identifier, ...logs(entry("DownstreamEnd", marks)) });
    await waitFor("the entry to be handled", () => handled.ended.length === 1);
    expect(await log.end()).toBe(status.OK);
  });

  it("needs the token of data planes", async () => {
    const log = openLog("a-guess");
    log.write({ identifier, ...logs(entry("DownstreamEnd", marks)) });
    expect(await log.end()).toBe(status.UNAUTHENTICATED);
    expect(handled.ended).toEqual([]);
  });

  it("a data plane with a token of its own reports only its own Envoys and connections", async () => {
    const token = "the-token-of-edge-1";
    access = { ...access, planes: { "edge-1": [token], "edge-2": ["the-token-of-edge-2"] } };
    const foreign = openLog("the-token-of-edge-2");
    foreign.write({ identifier, ...logs(entry("DownstreamEnd", { ...marks, ...paid })) });
    expect(await foreign.end()).toBe(status.PERMISSION_DENIED);
    const unnamed = openLog(token);
    unnamed.write(logs(entry("DownstreamEnd", marks)));
    expect(await unnamed.end()).toBe(status.PERMISSION_DENIED);
    expect([handled.ended, handled.settled, handled.warnings]).toEqual([[], [], 2]);
    const own = openLog(token);
    const proxy = text("edge-1-12ab");
    own.write({ identifier, ...logs(entry("DownstreamEnd", marks), entry("DownstreamEnd", { ...marks, proxy })) });
    expect(await own.end()).toBe(status.OK);
    expect([handled.ended, handled.warnings]).toEqual([[{ ...socket, proxy: "edge-1-12ab" }], 3]);
  });

  it("ends an open stream when its token is revoked", async () => {
    const own = { ...marks, proxy: text("edge-1-12ab") };
    access = { ...access, planes: { "edge-1": ["the-token-of-edge-1"] } };
    const log = openLog("the-token-of-edge-1");
    log.write({ identifier, ...logs(entry("DownstreamEnd", own)) });
    await waitFor("the entry to be handled", () => handled.ended.length === 1);
    access = { ...access, planes: { "edge-1": ["another-token-of-edge-1"] } };
    log.write(logs(entry("DownstreamEnd", own)));
    expect(await log.end()).toBe(status.PERMISSION_DENIED);
    expect(handled.ended).toHaveLength(1);
  });
});

it("a lying Envoy gets back what the service has paid for it and what its node has spent, and nothing of others", async () => {
  const [burst, spentByClients, paidForLiar, spentByLiar] = [100, 50, 10, 5];
  const address = `127.0.0.1:${await freePort()}`;
  const backend = await startSmallBackend();
  const tokens = { "edge-1": "the-token-of-edge-1", "edge-2": "the-token-of-edge-2" };
  const gateway = await startGateway(
    `
workers: 1
envoy: { listen: "${address}" }
lease: { report_interval_ms: 100 }
apps: { default: { guaranteed: 0.001, burst: ${burst}, profile: { based_on: iops, bandwidth: 0 } } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`,
    {
      control: `admin_token: ${ADMIN_TOKEN}, planes: { edge-1: ["${tokens["edge-1"]}"], edge-2: ["${tokens["edge-2"]}"] }`,
    },
  );
  /** How many of `count` tokens the service pays, one by one. */
  const paidFor = async (plane: keyof typeof tokens, count: number) => {
    const headers = { authorization: `Bearer ${tokens[plane]}`, "content-type": "text/plain" };
    const lines = "default 1\n".repeat(count);
    const { body } = await request(`http://${address}/v1/check`, { method: "POST", headers, body: lines });
    return (await body.text()).split("\n").filter((line) => line.startsWith("1 ")).length;
  };
  const spent = async () => {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
    const { body } = await request(`${gateway.controlUrl}/admin/ratelimit/apps/default`, { headers });
    return ((await body.json()) as { layers: { l2: { spent: number } } }).layers.l2.spent;
  };
  /** A node of the plane takes tokens and reports them as spent. */
  const spendOn = async (plane: keyof typeof tokens, cost: number) => {
    const headers = { authorization: `Bearer ${tokens[plane]}`, "content-type": "text/plain" };
    for (const body of [
      `${plane}-a 1 1\ndefault 0 0 0 ${cost} ${cost}`,
      `${plane}-a 1 2\ndefault ${cost} ${cost} 0 0 0`,
    ]) {
      const reply = await request(`${gateway.controlUrl}/v1/sync`, { method: "POST", headers, body });
      expect(await reply.body.text()).toMatch(new RegExp(`^ok .*\\ndefault ok \\d+ ${cost} `));
    }
  };
  const liar = new service(address, credentials.createInsecure());
  try {
    // The one that waited for the gateway to listen is the first.
    for (let i = 1; i < spentByClients; i++) await (await request(gateway.url)).body.dump();
    expect(await paidFor("edge-1", paidForLiar)).toBe(paidForLiar);
    await spendOn("edge-1", spentByLiar);
    const all = spentByClients + paidForLiar + spentByLiar;
    await waitFor("all spending to be reported", async () => (await spent()) === all);
    const log = openLog(tokens["edge-1"], liar);
    const lies = ["edge-1-a@1", "edge-1-b@7", "edge-2-a@1", ""].map((node) =>
      entry("DownstreamEnd", { ...paid, app: text("default"), paid: { numberValue: 1_000_000 }, node: text(node) }),
    );
    log.write({ identifier: { node: { id: "edge-1" } }, ...logs(...lies, ...lies, ...lies) });
    expect(await log.end()).toBe(status.OK);
    // The other plane has paid nothing here.
    const other = openLog(tokens["edge-2"], liar);
    other.write({ identifier: { node: { id: "edge-2" } }, ...logs(...lies) });
    expect(await other.end()).toBe(status.OK);
    await waitFor("the refunds of the liar, and no others", async () => (await spent()) === spentByClients);
    expect(await paidFor("edge-2", 2 * burst)).toBe(burst - spentByClients);
  } finally {
    liar.close();
    await gateway.stop();
    await backend.stop();
  }
});
