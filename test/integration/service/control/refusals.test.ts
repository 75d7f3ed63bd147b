/** Unauthorised and invalid admin requests are rejected, logged, and change nothing. */
import { request } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Store } from "../../../../src/store/store.js";
import { ADMIN_TOKEN, type ControlServer, PLANE_TOKEN, startControl } from "../../../support/control-server.js";
import { twoStores } from "../../../support/two-stores.js";

const stores = twoStores(2_000);

interface Sent {
  method?: string;
  path?: string;
  body?: string;
  headers?: Record<string, string>;
}

const order = JSON.stringify({ action: "activate", operator: "mallory" });
const json = { "content-type": "application/json" };
const token = { authorization: `Bearer ${ADMIN_TOKEN}` };

describe.each(stores)("admin requests over the %s store", (_name, open) => {
  let store: Store;
  let control: ControlServer;
  beforeEach(async () => {
    store = await open();
    control = await startControl(store);
  });
  afterEach(async () => {
    await control.close();
    await store.close();
  });

  /** All state that an admin request can change. */
  async function everything() {
    const video = control.live.current().apps.video!;
    const policy = { id: "video", guaranteed: video.guaranteed, burst: video.burst ?? 0, priority: 1, borrow: false };
    return {
      emergency: control.coordinator.emergency(),
      pinned: control.pin.current(),
      pinnedNodes: [...control.pinned],
      config: control.live.current(),
      layer: await control.live.layer(),
      balances: await control.quota.inspect(policy),
      loans: await control.quota.inspect({ id: "loans", guaranteed: 100, burst: 500, priority: 0, borrow: true }),
    };
  }

  /** Uses `request`, because fetch does not allow setting the Host header. */
  function send({ method = "POST", path = "/admin/ratelimit/emergency", body = order, headers = {} }: Sent) {
    return new Promise<{ status: number; text: string; headers: Record<string, unknown> }>((resolve, reject) => {
      const sent = request({ port: control.port, host: "127.0.0.1", method, path, headers, agent: false });
      sent.on("response", (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        response.on("end", () => resolve({ status: response.statusCode ?? 0, text, headers: response.headers }));
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }

  const refused: [what: string, sent: Sent, status: number, reason: string][] = [
    ["no token", { headers: json }, 401, "no_token"],
    ["an empty token", { headers: { ...json, authorization: "Bearer " } }, 401, "no_token"],
    ["a wrong token", { headers: { ...json, authorization: "Bearer wrong-token-0123456789" } }, 401, "wrong_token"],
    ["half a token", { headers: { ...json, authorization: `Bearer ${ADMIN_TOKEN.slice(0, -1)}` } }, 401, "wrong_token"],
    ["the token in another scheme", { headers: { ...json, authorization: `Basic ${ADMIN_TOKEN}` } }, 401, "no_token"],
    ["the token of data planes", { headers: { ...json, authorization: `Bearer ${PLANE_TOKEN}` } }, 403, "wrong_role"],
    ["a foreign Host", { headers: { ...json, ...token, host: "evil.example" } }, 403, "unknown_host"],
    [
      "a cross-site form",
      {
        headers: {
          ...token,
          origin: "https://evil.example",
          "sec-fetch-site": "cross-site",
          "content-type": "application/x-www-form-urlencoded",
        },
        body: "action=activate",
      },
      403,
      "cross_site",
    ],
    ["a cross-site script", { headers: { ...json, ...token, origin: "https://evil.example" } }, 403, "cross_site"],
    ["a page without an origin", { headers: { ...json, ...token, origin: "null" } }, 403, "cross_site"],
    ["a same-site request", { headers: { ...json, ...token, "sec-fetch-site": "same-site" } }, 403, "cross_site"],
    [
      "a form without Origin and Sec-Fetch-Site headers",
      { headers: { ...token, "content-type": "application/x-www-form-urlencoded" }, body: "action=activate" },
      415,
      "content_type",
    ],
    [
      "a form with files",
      { headers: { ...token, "content-type": "multipart/form-data" }, body: "x" },
      415,
      "content_type",
    ],
    ["a form in plain text", { headers: { ...token, "content-type": "text/plain" } }, 415, "content_type"],
    ["too large a body", { headers: { ...json, ...token }, body: `{"reason":"${"x".repeat(300_000)}"}` }, 413, "body"],
    ["invalid JSON", { headers: { ...json, ...token }, body: "{action" }, 400, "body must be JSON"],
    ["control characters", { headers: { ...json, ...token }, body: "\u0000\u0001" }, 400, "body must be JSON"],
    ["no body at all", { headers: { ...json, ...token }, body: "" }, 400, "action is missing"],
    ["a list", { headers: { ...json, ...token }, body: "[1]" }, 400, "body must be an object"],
    ["null", { headers: { ...json, ...token }, body: "null" }, 400, "body must be an object"],
    [
      "an unknown field",
      { headers: { ...json, ...token }, body: '{"action":"activate","durationSeconds":5}' },
      400,
      "durationSeconds is not a field; did you mean duration_seconds?",
    ],
    [
      "a field named __proto__",
      { headers: { ...json, ...token }, body: '{"action":"activate","__proto__":{"reason":"x"}}' },
      400,
      "body must not contain the name __proto__",
    ],
    [
      "a body with 50,000 levels of nesting",
      { headers: { ...json, ...token }, body: `{"action":${"[".repeat(50_000)}${"]".repeat(50_000)}}` },
      400,
      "body must be nested at most 64 levels deep",
    ],
    [
      "NaN",
      { headers: { ...json, ...token }, body: '{"action":"activate","duration_seconds":NaN}' },
      400,
      "body must be JSON",
    ],
    [
      "a negative number",
      { headers: { ...json, ...token }, body: '{"action":"activate","duration_seconds":-1}' },
      400,
      "duration_seconds must be at least 0",
    ],
    [
      "a huge number",
      { headers: { ...json, ...token }, body: '{"action":"activate","duration_seconds":1e308}' },
      400,
      "duration_seconds must be at most 2592000",
    ],
    [
      "a number that overflows to infinity",
      { headers: { ...json, ...token }, body: '{"action":"activate","duration_seconds":1e999}' },
      400,
      "duration_seconds must be a number",
    ],
    [
      "a number as text",
      { headers: { ...json, ...token }, body: '{"action":"activate","duration_seconds":"5"}' },
      400,
      "duration_seconds must be a number",
    ],
    [
      "another action",
      { headers: { ...json, ...token }, body: '{"action":"on"}' },
      400,
      "action must be activate or deactivate",
    ],
    [
      "an operator name that is too long",
      { headers: { ...json, ...token, "x-operator": "o".repeat(129) } },
      400,
      "X-Operator must be 1 to 128 characters",
    ],
  ];

  it.each(refused)("%s is rejected and logged, and changes nothing", async (_what, sent, status, reason) => {
    const before = await everything();
    // The header X-Operator is used only if the body names no operator.
    const body = sent.headers?.["x-operator"] === undefined ? {} : { body: '{"action":"activate"}' };
    const answer = await send({ ...sent, ...body });
    expect([answer.status, JSON.parse(answer.text).reason]).toEqual([status, reason]);
    expect(answer.headers["x-content-type-options"]).toBe("nosniff");
    expect(answer.headers["access-control-allow-origin"]).toBeUndefined();
    expect(answer.headers["www-authenticate"]).toBe(status === 401 ? "Bearer" : undefined);
    const [line, ...more] = control.audited();
    expect(more).toEqual([]);
    expect(line).toMatchObject({
      ...{ audit: true, action: "emergency", outcome: "refused", status, client: "127.0.0.1" },
      why: expect.stringContaining(reason.slice(0, 10)),
    });
    expect(JSON.stringify(control.logged)).not.toMatch(/(admin|plane|wrong)-token/);
    expect(answer.text).not.toMatch(/(admin|plane|wrong)-token/);
    const after = await everything();
    expect({ ...after, balances: 0, loans: 0 }).toEqual({ ...before, balances: 0, loans: 0 });
    expect(after.balances).toEqual(before.balances);
    expect(after.loans).toEqual(before.loans);
  });

  const wrongOrders: [path: string, body: unknown, field: string][] = [
    ["POST /degradation", { level: 4 }, "level"],
    ["POST /degradation", { level: -1 }, "level"],
    ["POST /degradation", { level: 1.5 }, "level"],
    ["POST /degradation", { level: "2" }, "level"],
    ["POST /degradation", { level: 1, duration_seconds: 0 }, "duration_seconds"],
    ["POST /degradation", { level: 1, reason: "x".repeat(201) }, "reason"],
    ["POST /degradation", { levle: 1 }, "levle"],
    ["POST /borrow", { app_id: "loans", amount: 0 }, "amount"],
    ["POST /borrow", { app_id: "loans", amount: -5 }, "amount"],
    ["POST /borrow", { app_id: "loans", amount: 0.5 }, "amount"],
    ["POST /borrow", { app_id: "loans", amount: 1e15 }, "amount"],
    ["POST /borrow", { app_id: "lo{ans}", amount: 5 }, "app_id"],
    ["POST /borrow", { app_id: 5, amount: 5 }, "app_id"],
    ["POST /repay", { app_id: "loans", amount: null }, "amount"],
    ["POST /repay", { amount: 5 }, "app_id"],
    ["POST /reconcile", { app_id: "", force: true }, "app_id"],
    ["POST /reconcile", { force: 1 }, "force"],
    ["POST /reload", { source: "disk" }, "source"],
    ["POST /reload", { source: "all", now: true }, "now"],
    ["PUT /config", {}, "config"],
    ["PUT /config", { config: [] }, "config"],
    ["PUT /config", { config: {}, expected_revision: -1 }, "expected_revision"],
    ["PUT /config", { config: { apps: { video: { burst: -1 } } } }, "apps.video.burst"],
    ["PUT /config", { config: { apps: { video: { bursts: 5 } } } }, "apps.video.bursts"],
    ["PUT /config", { config: { control: { admin_token: "" } } }, "control"],
  ];

  it.each(wrongOrders)("%s with %j is rejected with the field %s and changes nothing", async (call, body, field) => {
    const [method = "", path = ""] = call.split(" ");
    const before = await everything();
    const response = await control.admin(method, path, body);
    const answer = (await response.json()) as Record<string, string>;
    expect([400, 422]).toContain(response.status);
    expect(answer.field).toContain(field);
    expect(answer.reason).toContain(field);
    expect(control.audited()).toMatchObject([{ outcome: "refused", status: response.status }]);
    const after = await everything();
    expect(after).toEqual(before);
  });

  it("values of a rejected configuration are not logged: a misspelt option may contain a secret", async () => {
    await control.admin("PUT", "/config", { config: { identity: { api_kyes: { video: ["a-very-secret-key-1"] } } } });
    await control.admin("PUT", "/config", { config: { identity: { api_keys: { video: ["a-very-secret-key-2"] } } } });
    expect(control.audited()).toMatchObject([{ outcome: "refused" }, { outcome: "done" }]);
    expect(JSON.stringify(control.logged)).not.toContain("a-very-secret-key");
    const shown = await (await control.admin("GET", "/config")).text();
    expect(shown).not.toContain("a-very-secret-key");
  });
});
