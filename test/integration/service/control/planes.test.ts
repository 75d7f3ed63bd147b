/** Data planes and operators with credentials of their own: what each may do, and what the audit log says. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { connectionEndpoints } from "../../../../src/service/control/plane-api/connection-api.js";
import { createRouteSlots } from "../../../../src/slots/slots.js";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import { ADMIN_TOKEN, type ControlServer, PLANE_TOKEN, startControl } from "../../../support/control-server.js";

const tokens = {
  first: "the-first-token-of-edge-1",
  second: "the-second-token-of-edge-1",
  third: "the-third-token-of-edge-1",
  other: "the-token-of-edge-2",
  alice: "the-token-of-alice",
  bob: "the-token-of-bob",
  vera: "the-token-of-vera",
};
const section = {
  admin_token: ADMIN_TOKEN,
  plane_token: PLANE_TOKEN,
  allow: ["127.0.0.0/8"],
  planes: { "edge-1": [tokens.first, tokens.second], "edge-2": tokens.other },
  operators: { alice: tokens.alice, bob: [tokens.bob] },
  viewers: { vera: tokens.vera },
};
const POD = "10.0.0.7:80";

let control: ControlServer;
/** Scripts that were run for data planes. */
let scripts: string[];
beforeEach(async () => {
  const store = createEmbeddedStore();
  scripts = [];
  const watched: typeof store = {
    ...store,
    run(name, ...rest) {
      if (/^(grant|report|slot)/.test(name)) scripts.push(name);
      return store.run(name, ...rest);
    },
  };
  const limits = { maxPerPod: 10, maxTotal: 0, maxPerApp: 0, ratePerSecond: 0, burst: 1, leaseMs: 30_000 };
  control = await startControl(watched, {
    config: { control: section },
    endpoints: connectionEndpoints({
      slots: createRouteSlots(watched, "c1"),
      routes: () => new Map([["/ws/", { ...limits, onStoreFailure: "closed" as const }]]),
      appOf: (name) => name,
      timeoutMs: () => 1_000,
    }),
  });
});
afterEach(() => control.close());

async function ask(token: string, path: string, body: unknown, headers: Record<string, string> = {}) {
  const response = await control.call("POST", path, body, { authorization: `Bearer ${token}`, ...headers });
  const text = await response.text();
  return response.status === 200 ? 200 : `${response.status} ${(JSON.parse(text) as { reason: string }).reason}`;
}

/** Every message in which a data plane says who it is, as JSON and as plain text. */
function messagesAs(node: string): [path: string, body: unknown, headers?: Record<string, string>][] {
  const text = { "content-type": "text/plain" };
  const held = [{ connection: "c", pod: POD }];
  return [
    ["/v1/sync", { node, epoch: 1, seq: 1, apps: [{ app: "video", granted: 0, spent: 0, need: 1, want: 5 }] }],
    ["/v1/sync", { node, epoch: 1, seq: 2, leave: true }],
    ["/v1/sync", `${node} 2 1\nvideo 0 0 0 1 5`, text],
    ["/v1/connections/acquire", { proxy: node, connection: "c", pods: [POD] }],
    ["/v1/connections/acquire", `${node} d\n${POD}`, text],
    ["/v1/connections/renew", { proxy: node, connections: held }],
    ["/v1/connections/renew", { proxy: node }],
    ["/v1/connections/release", { proxy: node, connections: held }],
    ["/v1/connections/release", `${node}\nd ${POD}`, text],
    ["/redis/atomic", { operation: "acquire", key: `ws:pod_conn:${POD}`, args: [10, "e", node] }],
    ["/redis/atomic", `check_and_increment ws:pod_conn:${POD} 10 f ${node}`, text],
    ["/redis/atomic", { operation: "renew", key: `ws:pod_conn:${POD}`, args: [node, "e"] }],
    ["/redis/atomic", { operation: "heartbeat", key: `ws:proxy:${node}:heartbeat` }],
    ["/redis/atomic", { operation: "release", key: `ws:pod_conn:${POD}`, args: ["e", node] }],
    ["/redis/atomic", { operation: "decrement", key: `ws:pod_conn:${POD}`, args: ["f", node] }],
  ];
}

describe("a data plane with tokens of its own", () => {
  it("acts for its own nodes, with either of its tokens", async () => {
    for (const token of [tokens.first, tokens.second]) {
      for (const node of ["edge-1", `edge-1-${token.slice(4, 9)}`, "edge-1.88-1"]) {
        for (const [path, body, headers] of messagesAs(node)) {
          expect([path, body, await ask(token, path, body, headers)]).toEqual([path, body, 200]);
        }
      }
    }
  });

  it("gets 403 for the nodes of others, and nothing is changed; the audit log names it", async () => {
    const messages = ["edge-2", "edge-10", "edge", "nginx-0"].flatMap(messagesAs);
    for (const [path, body, headers] of messages) {
      expect([path, body, await ask(tokens.first, path, body, headers)]).toEqual([path, body, "403 wrong_plane"]);
    }
    expect(scripts).toEqual([]);
    expect(control.audited()[0]).toMatchObject({
      ...{ action: "POST /v1/sync", plane: "edge-1", why: "wrong_plane", outcome: "refused", status: 403 },
    });
  });

  it("may read counts, and has no admin access", async () => {
    expect(await ask(tokens.first, "/v1/connections/counts", { pods: [POD] })).toBe(200);
    expect(await ask(tokens.first, "/redis/atomic", { operation: "count", key: "ws:global_conn" })).toBe(200);
    expect(await ask(tokens.first, "/admin/ratelimit/reconcile", {})).toBe("403 wrong_role");
  });

  it("is rotated without an interruption: the new token is added, used, and the old one removed", async () => {
    const message = { node: "edge-1", epoch: 1, seq: 1 };
    const rotate = async (...own: string[]) => {
      await control.writeFile({ control: { ...section, planes: { "edge-1": own } } });
      expect((await control.admin("POST", "/reload")).status).toBe(200);
    };
    await rotate(tokens.first);
    expect(await ask(tokens.third, "/v1/sync", message)).toBe("401 wrong_token");
    await rotate(tokens.third, tokens.first);
    for (const token of [tokens.first, tokens.third]) expect(await ask(token, "/v1/sync", message)).toBe(200);
    await rotate(tokens.third);
    expect(await ask(tokens.first, "/v1/sync", message)).toBe("401 wrong_token");
    expect(await ask(tokens.third, "/v1/sync", message)).toBe(200);
    expect(await ask(tokens.other, "/v1/sync", message)).toBe("401 wrong_token");
  });
});

it("the common token acts for all nodes", async () => {
  for (const node of ["edge-1", "nginx-0"])
    expect(await ask(PLANE_TOKEN, "/v1/sync", { node, epoch: 1, seq: 1 })).toBe(200);
});

describe("an operator with a token of their own", () => {
  const pin = { level: 1, duration_seconds: 60 };
  const last = () => control.audited().at(-1);

  it("is named in the audit log and in replies, whatever the request claims", async () => {
    const path = "/admin/ratelimit/emergency";
    const order = { action: "activate", reason: "drill", operator: "mallory", duration_seconds: 60 };
    const response = await control.call("POST", path, order, {
      authorization: `Bearer ${tokens.alice}`,
      "x-operator": "mallory",
    });
    expect(await response.json()).toMatchObject({ operator: "alice" });
    expect(last()).toMatchObject({ action: "emergency", operator: "alice", verified: true, outcome: "done" });
    expect(await ask(tokens.bob, path, { action: "deactivate" }, { "x-operator": "alice" })).toBe(200);
    expect(last()).toMatchObject({ action: "emergency", operator: "bob", verified: true });
    // Also if the request is invalid.
    expect(await ask(tokens.bob, path, { action: "explode" })).toMatch(/^400/);
    expect(last()).toMatchObject({ operator: "bob", verified: true, outcome: "refused" });
  });

  it("with the common token the name is as claimed, and not verified", async () => {
    expect(await ask(ADMIN_TOKEN, "/admin/ratelimit/degradation", pin, { "x-operator": "carol" })).toBe(200);
    expect(last()).toMatchObject({ operator: "carol", verified: false });
    expect(await ask("a-token-of-nobody", "/admin/ratelimit/degradation", pin, { "x-operator": "alice" })).toBe(
      "401 wrong_token",
    );
    expect(last()).toMatchObject({ operator: "alice", verified: false, why: "wrong_token" });
  });

  it("is not accepted as a data plane, and keeps access without a common token", async () => {
    expect(await ask(tokens.alice, "/v1/sync", { node: "n", epoch: 1, seq: 1 })).toBe("403 wrong_role");
    await control.writeFile({ control: { ...section, admin_token: "", plane_token: "" } });
    expect((await control.admin("POST", "/reload")).status).toBe(200);
    expect((await control.admin("GET", "/status")).status).toBe(401);
    expect(await ask(tokens.alice, "/admin/ratelimit/degradation", pin)).toBe(200);
    expect(await ask(PLANE_TOKEN, "/v1/sync", { node: "edge-1", epoch: 1, seq: 1 })).toBe("401 wrong_token");
  });
});

describe("a viewer", () => {
  const get = async (path: string) =>
    (await control.call("GET", path, undefined, { authorization: `Bearer ${tokens.vera}` })).status;

  it("may read the admin API, but change nothing; refused attempts are in the audit log", async () => {
    for (const path of ["status", "apps", "apps/video", "emergency", "degradation", "config/effective", "audit"]) {
      expect([path, await get(`/admin/ratelimit/${path}`)]).toEqual([path, 200]);
    }
    const changes: [string, object][] = [
      ["emergency", { action: "activate" }],
      ["degradation", { level: 3 }],
      ["borrow", { app_id: "video", amount: 1 }],
      ["repay", { app_id: "video", amount: 1 }],
      ["reconcile", {}],
      ["reload", {}],
    ];
    for (const [path, body] of changes) {
      expect([path, await ask(tokens.vera, `/admin/ratelimit/${path}`, body)]).toEqual([path, "403 read_only"]);
    }
    expect(control.coordinator.emergency().active).toBe(false);
    expect(control.audited().at(-1)).toMatchObject({ action: "reload", outcome: "refused", why: "read_only" });
    expect(await ask(tokens.vera, "/v1/sync", { node: "n", epoch: 1, seq: 1 })).toBe("403 wrong_role");
  });

  it("no endpoint of the API lets it change something", async () => {
    const document = (await (await fetch(`${control.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { security?: object[] }>>;
    };
    for (const [path, methods] of Object.entries(document.paths)) {
      if (!path.startsWith("/admin/")) continue;
      for (const [method, { security = [] }] of Object.entries(methods)) {
        const isOpen = security.some((one) => "viewer" in one);
        // Comparing configurations is a POST, because of the body, and changes nothing.
        expect([path, method, isOpen]).toEqual([path, method, method === "get" || path.endsWith("/what-if")]);
      }
    }
  });
});

it("no token is logged or shown", async () => {
  await ask("a-wrong-token-0123456789", "/v1/sync", { node: "edge-1", epoch: 1, seq: 1 });
  await ask(tokens.first, "/v1/sync", { node: "edge-2", epoch: 1, seq: 1 });
  await control.admin("PUT", "/config", { config: { control: { planes: { x: "another-secret-0123456" } } } });
  const shown = JSON.stringify([control.logged, await (await control.admin("GET", "/config")).json()]);
  for (const secret of [
    ...Object.values(tokens),
    ADMIN_TOKEN,
    PLANE_TOKEN,
    "a-wrong-token-0123456789",
    "another-secret",
  ]) {
    expect(shown).not.toContain(secret);
  }
});
