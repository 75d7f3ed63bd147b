/** The library's calls with the embedded store: requests with plain values, limits without apps, `consume`, and typed results. */
import { afterEach, describe, expect, expectTypeOf, it } from "vitest";
import {
  type CreateLimiterOptions,
  createLimiter,
  type Decision,
  type LibraryLimiter,
  rateLimitHeaders,
  refusalOf,
} from "../../../../src/index.js";

const endings: LibraryLimiter[] = [];
afterEach(async () => {
  for (const limiter of endings.splice(0)) await limiter.close();
});

async function start(options: CreateLimiterOptions): Promise<LibraryLimiter> {
  const limiter = await createLimiter(options);
  endings.push(limiter);
  return limiter;
}

/** The codes of several checks. */
async function codes(
  limiter: LibraryLimiter,
  ...requests: Parameters<LibraryLimiter["check"]>[0][]
): Promise<string[]> {
  const found: string[] = [];
  for (const request of requests) found.push((await limiter.check(request)).code);
  return found;
}

describe("limits without apps", () => {
  it("have a bucket for each value, and apply to what matches", async () => {
    const limiter = await start({
      limits: [
        { name: "per-user", key: ["user"], rate: "2/min" },
        { name: "logins", key: ["ip"], rate: "1/min", match: { path: ["/login"], method: ["POST"] } },
      ],
    });
    const [anna, ben] = [
      { user: "anna", ip: "192.0.2.1" },
      { user: "ben", ip: "192.0.2.1" },
    ];
    expect(await codes(limiter, anna, anna, anna, ben)).toEqual(["ok", "ok", "quota_exhausted", "ok"]);
    const login = { path: "/login?next=/", method: "POST", ip: "192.0.2.9" };
    expect(await codes(limiter, { ...login, user: "carl" }, { ...login, user: "dora" })).toEqual([
      "ok",
      "quota_exhausted",
    ]);
  });

  it("say which limit refuses, its state, and when to come back", async () => {
    const limiter = await start({
      limits: [
        { name: "all", rate: "100/min" },
        { name: "per-user", key: ["user"], rate: "1/min" },
      ],
    });
    const allowed = await limiter.check({ user: "anna" });
    expect(allowed).toMatchObject({ allowed: true, limit: 1, remaining: 0, app: "" });
    const refused = await limiter.check({ user: "anna" });
    expect(refused).toMatchObject({
      allowed: false,
      code: "quota_exhausted",
      limitName: "per-user",
      limit: 1,
      remaining: 0,
    });
    if (refused.allowed) throw new Error("it was allowed");
    expectTypeOf(refused.retryAfter).toBeNumber();
    expect(refused.retryAfter).toBeGreaterThan(50);
    expect(rateLimitHeaders(refused)).toMatchObject({
      "X-RateLimit-Limit": "1",
      "Retry-After": String(refused.retryAfter),
    });
    expect(rateLimitHeaders(refused)["RateLimit-Policy"]).toBe('"all";q=100;w=60, "per-user";q=1;w=60');
    const { status, body } = refusalOf(refused);
    expect(status).toBe(429);
    expect(JSON.parse(body)).toMatchObject({ reason: "quota_exhausted", app_id: "", limit_name: "per-user", limit: 1 });
  });

  it("admit what none of them matches, without headers", async () => {
    const limiter = await start({ limits: [{ name: "logins", rate: "1/min", match: { path: ["/login"] } }] });
    const result = await limiter.check({ path: "/" });
    expect(result).toMatchObject({
      allowed: true,
      limit: Number.POSITIVE_INFINITY,
      remaining: Number.POSITIVE_INFINITY,
    });
    expect(rateLimitHeaders(result)).toEqual({});
  });

  it("are observed", async () => {
    const seen: Decision[] = [];
    const decided = (decision: Decision) => void seen.push(decision);
    const limiter = await start({ limits: [{ name: "all", rate: "1/min" }], observer: { decided } });
    await codes(limiter, {}, {});
    expect(seen.map(({ code, limitName }) => [code, limitName])).toEqual([
      ["ok", undefined],
      ["quota_exhausted", "all"],
    ]);
  });
});

describe("headers of a checked request", () => {
  const limits = [{ name: "per-key", key: ["header:x-api-key"], rate: "1/min" }];
  const own = new Headers({ "X-Api-Key": "a" });
  it.each([
    ["in lower case, as in Node", { "x-api-key": "a" }],
    ["in any case", { "X-Api-Key": "a" }],
    ["in lists, as headersDistinct", { "x-api-key": ["a"] }],
    ["of fetch", own],
    ["of another implementation of fetch", { get: (name: string) => own.get(name) } as unknown as Headers],
  ])("are found %s", async (_, headers) => {
    const limiter = await start({ limits });
    expect(
      await codes(limiter, { headers }, { headers: { "x-api-key": "a" } }, { headers: { "x-api-key": "b" } }),
    ).toEqual(["ok", "quota_exhausted", "ok"]);
  });

  it("do not include what objects inherit", async () => {
    const match = { header: [{ name: "constructor", value: "*" }] };
    const limiter = await start({ limits: [{ name: "odd", match, rate: "1/min" }] });
    expect(await codes(limiter, { headers: {} }, { headers: {} })).toEqual(["ok", "ok"]);
    const headers = { constructor: "a" };
    expect(await codes(limiter, { headers }, { headers })).toEqual(["ok", "quota_exhausted"]);
  });

  it("state the length of the body", async () => {
    const limiter = await start({ apps: { red: { guaranteed: 100 } } });
    const headers = { "content-length": String(10 * 65_536) };
    expect(await limiter.check({ app: "red", method: "PUT", headers })).toMatchObject({ cost: 15 });
    expect(await limiter.check({ app: "red", method: "PUT", headers, contentLength: 65_536 })).toMatchObject({
      cost: 6,
    });
  });
});

it.each([
  ["a header", { key: ["header:x-key"], deny: ["ключ"] }, { headers: { "x-key": "ключ" } }, "denied"],
  ["a user", { key: ["user"], deny: ["ключ"] }, { user: "ключ" }, "denied"],
  ["a host", { key: ["host"], deny: ["ключ.example"] }, { host: "ключ.example" }, "denied"],
  ["a path", { key: ["path"], deny: ["/ключ"] }, { path: "/ключ" }, "denied"],
  [
    "a header with a condition",
    { match: { header: [{ name: "x-key", value: "клю*" }] } },
    { headers: { "x-key": "ключ" } },
    "quota_exhausted",
  ],
  ["a routed path", { match: { path: [encodeURI("/ключ")] } }, { path: "/", routedPath: "/ключ" }, "quota_exhausted"],
])("%s of any characters equals the value of a limit", async (_, limit, request, code) => {
  const limiter = await start({ limits: [{ name: "a", rate: "1/min", ...limit }] });
  expect((await codes(limiter, request, request))[1]).toBe(code);
});

describe("apps", () => {
  it("pay together with the limits, or not at all", async () => {
    const limiter = await start({
      apps: { red: { guaranteed: 1, burst: 3 } },
      limits: [{ name: "per-user", key: ["user"], rate: "1/min" }],
    });
    expect(await codes(limiter, { app: "red", user: "anna" }, { app: "red", user: "anna" })).toEqual([
      "ok",
      "quota_exhausted",
    ]);
    expect(await limiter.check({ app: "red", user: "ben" })).toMatchObject({ allowed: true, remaining: 1, app: "red" });
    expect(await codes(limiter, { app: "blue" }, {})).toEqual(["unknown_app", "unknown_app"]);
  });

  it("are decided at once, without a promise, while the lease has tokens", async () => {
    const limiter = await start({ apps: { red: { guaranteed: 1_000 } } });
    await limiter.check({ app: "red" });
    expect(limiter.check({ app: "red" })).toMatchObject({ allowed: true, source: "local" });
  });
});

describe("consume", () => {
  const buckets = { emails: { rate: "10/day" }, sms: { rate: "2/day", burst: 2 } };

  it("takes tokens of a bucket by name, and of one for each key", async () => {
    const limiter = await start({ buckets });
    expect(await limiter.consume("emails", 4)).toMatchObject({ allowed: true, limit: 10, remaining: 6 });
    expect(await limiter.consume("emails:anna", 10)).toMatchObject({ allowed: true, remaining: 0 });
    const refused = await limiter.consume("emails:anna");
    expect(refused).toMatchObject({ allowed: false, code: "quota_exhausted", cost: 1, limit: 10 });
    expect(!refused.allowed && refused.retryAfter).toBeGreaterThan(8_000);
    expect(await limiter.consume("emails:ünal 🦊")).toMatchObject({ allowed: true, remaining: 9 });
    expect(await limiter.consume("sms:anna", 3)).toMatchObject({ allowed: false, code: "cost_exceeds_capacity" });
  });

  it("tells keys apart whatever their characters are", async () => {
    const limiter = await start({ buckets });
    for (const key of ["\u1042", "\u001042", "\u0010:42", "a", "A", ""]) {
      expect(await limiter.consume(`sms:${key}`, 2)).toMatchObject({ allowed: true, remaining: 0 });
    }
  });

  it("leaves requests alone", async () => {
    const limiter = await start({ buckets, limits: [{ name: "per-user", key: ["user"], rate: "5/min" }] });
    await limiter.consume("emails:anna", 10);
    expect(await limiter.check({ user: "anna" })).toMatchObject({ allowed: true, limit: 5 });
  });

  it("names the buckets if there is none with the name, and rejects other than positive numbers", async () => {
    const limiter = await start({ buckets });
    expect(() => limiter.consume("mails:anna")).toThrow(
      '"mails" is not one of the limiter\'s buckets: there are emails, sms',
    );
    expect(() => limiter.consume("emails", 0)).toThrow("tokens must be above 0, not 0");
    expect(() => limiter.consume("emails", Number.NaN)).toThrow("tokens must be above 0, not NaN");
  });

  it("applies new buckets", async () => {
    const limiter = await start({ buckets });
    await limiter.consume("sms:anna", 2);
    limiter.reconfigure({ buckets: { sms: { rate: "2/day", burst: 5 } } });
    expect(await limiter.consume("sms:anna", 1)).toMatchObject({ limit: 5 });
    expect(() => limiter.consume("emails")).toThrow("there are sms");
  });
});

it("a limiter without apps can get some, and keeps its limits", async () => {
  const limiter = await start({ limits: [{ name: "all", rate: "100/min" }] });
  expect(await codes(limiter, {})).toEqual(["ok"]);
  limiter.reconfigure({ apps: { red: { guaranteed: 1 } } });
  expect(await codes(limiter, {}, { app: "red" })).toEqual(["unknown_app", "ok"]);
});

it("the former name of ip gets an error where a request without an address would be accepted", async () => {
  const limiter = await start({ limits: [{ name: "per-address", key: ["ip"], rate: "1/min" }] });
  const former = { user: "anna", address: "192.0.2.1" };
  await expect(limiter.lookAtLimits(former)).rejects.toThrow("address is now ip");
  await expect(limiter.refundLimits(former, 1)).rejects.toThrow("address is now ip");
});

it("the former signature of check gets an error that says what to write", async () => {
  const limiter = await start({ apps: { red: { guaranteed: 1 } } });
  const former = limiter.check as unknown as (app: string, method: string, contentLength: number) => unknown;
  expect(() => former("red", "GET", 0)).toThrow(
    'check takes an object: instead of check("red", "GET", 0) write check({ app: "red", method: "GET", contentLength: 0 })',
  );
});
