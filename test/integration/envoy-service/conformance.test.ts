/** Envoy's Rate Limit Service, called with the official messages by grpc-js. */
import { status } from "@grpc/grpc-js";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Writer } from "../../../src/envoy-service/grpc/protobuf-writer.js";
import type { Descriptor, DescriptorDecision, DescriptorStatus } from "../../../src/limiter/descriptors/descriptor.js";
import { type ListenerUnderTest, startEnvoyListener } from "../../support/envoy-listener.js";
import { connectRateLimitClient, type RateLimitCall, type RateLimitClient } from "../../support/rate-limit-client.js";

const METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const none: DescriptorStatus = {
  allowed: true,
  code: "ok",
  unlimited: false,
  remaining: 0,
  resetMs: 0,
  retryAfterMs: 0,
  shadow: false,
};
const limit = { name: "per-user", perUnit: 100, unit: "minute" as const };
const one: RateLimitCall = { domain: "edge", descriptors: [{ entries: [{ key: "user", value: "ann" }] }] };

let decided: { domain: string; descriptors: readonly Descriptor[]; hits: number }[] = [];
let decide: (descriptors: readonly Descriptor[]) => DescriptorDecision | Promise<DescriptorDecision>;
const allow = (descriptors: readonly Descriptor[]): DescriptorDecision => ({
  allowed: true,
  code: "ok",
  statuses: descriptors.map(() => none),
});
const decision = (...statuses: Partial<DescriptorStatus>[]): DescriptorDecision => ({
  allowed: statuses.every(({ allowed }) => allowed !== false),
  code: statuses.find(({ allowed }) => allowed === false)?.code ?? "ok",
  statuses: statuses.map((status) => ({ ...none, ...status })),
});

let listener: ListenerUnderTest;
let client: RateLimitClient;
let official: RateLimitClient;
beforeAll(async () => {
  const rules = {
    decide(domain: string, descriptors: readonly Descriptor[], hits: number) {
      decided.push({ domain, descriptors, hits });
      return decide(descriptors);
    },
  };
  listener = await startEnvoyListener({ descriptors: rules });
  client = connectRateLimitClient(listener.address);
  official = connectRateLimitClient(listener.address, "official");
});
afterEach(() => {
  decided = [];
  decide = allow;
});
afterAll(async () => {
  client.close();
  official.close();
  await listener.close();
});
decide = allow;

const refusal = (promise: Promise<unknown>) =>
  promise.then(
    () => ({ code: status.OK, details: "" }),
    ({ code, details }: { code: number; details: string }) => ({ code, details }),
  );

describe("a request", () => {
  it("is read correctly with the official protos", async () => {
    await official.ask({
      domain: "edge",
      hits_addend: 3,
      descriptors: [
        {
          entries: [
            { key: "user", value: "änn" },
            { key: "path", value: "/a" },
          ],
        },
        { entries: [{ key: "x", value: "" }], limit: { requests_per_unit: 42, unit: "HOUR" } },
      ],
    });
    expect(decided).toEqual([
      {
        domain: "edge",
        hits: 3,
        descriptors: [
          {
            entries: [
              { key: "user", value: "änn" },
              { key: "path", value: "/a" },
            ],
          },
          { entries: [{ key: "x", value: "" }], override: { perUnit: 42, unit: "hour" } },
        ],
      },
    ]);
  });

  it("has one hit if hits_addend is missing or 0, and at most 2^32 - 1", async () => {
    await client.ask(one);
    await client.ask({ ...one, hits_addend: 0 });
    await client.ask({ ...one, hits_addend: 0xffff_ffff });
    expect(decided.map(({ hits }) => hits)).toEqual([1, 1, 4_294_967_295]);
  });

  it("may have hits per descriptor: 0, negative, and beyond 2^53", async () => {
    const entries = [{ key: "user", value: "ann" }];
    const most = "18446744073709551615";
    await client.ask({
      domain: "edge",
      descriptors: [
        { entries, hits_addend: { value: 0 } },
        { entries, hits_addend: { value: 5 }, is_negative_hits: true },
        { entries, hits_addend: { value: most } },
        { entries, is_negative_hits: true },
      ],
    });
    expect(decided[0]?.descriptors.map(({ hits, negative }) => [hits, negative])).toEqual([
      [0, undefined],
      [5, true],
      [Number.MAX_SAFE_INTEGER, undefined],
      [undefined, true],
    ]);
  });

  it.each<[string, RateLimitCall, string]>([
    ["no domain", { descriptors: one.descriptors! }, "domain must not be empty"],
    ["no descriptors", { domain: "edge" }, "descriptors must not be empty"],
    ["a descriptor without entries", { domain: "edge", descriptors: [{}] }, "descriptors.entries must not be empty"],
    [
      "an entry without a key",
      { domain: "edge", descriptors: [{ entries: [{ value: "x" }] }] },
      "descriptors.entries.key must not be empty",
    ],
    [
      "an override without a unit",
      { domain: "edge", descriptors: [{ ...one.descriptors![0], limit: { requests_per_unit: 1 } }] },
      "limit.unit must be a unit of time",
    ],
    [
      "an override for several units",
      {
        domain: "edge",
        descriptors: [{ ...one.descriptors![0], limit: { unit: "HOUR", unit_multiplier: { value: 2 } } }],
      },
      "limit.unit_multiplier must be 1: limits are stated per unit",
    ],
  ])("with %s is rejected with the name of the field, and nothing is decided", async (_what, asked, details) => {
    expect(await refusal(client.ask(asked))).toEqual({ code: status.INVALID_ARGUMENT, details });
    expect(decided).toEqual([]);
  });

  it("may have unknown fields", async () => {
    const writer = new Writer();
    const descriptor = writer.uint(9, 9).text(1, "edge").open(2);
    const entry = writer.open(1);
    writer.text(1, "a").text(2, "b").text(3, "later").close(entry);
    writer.double(1_000, 1.5).close(descriptor);
    await client.raw(METHOD, Buffer.concat([writer.text(12, "x").finish(), Buffer.from([0x6b, 0x08, 0x01, 0x6c])]));
    expect(decided).toEqual([{ domain: "edge", hits: 1, descriptors: [{ entries: [{ key: "a", value: "b" }] }] }]);
  });

  it("that is malformed is rejected", async () => {
    const { code } = await refusal(client.raw(METHOD, Buffer.from([0x0a, 0xff])));
    expect(code).toBe(status.INVALID_ARGUMENT);
  });
});

/** A google.protobuf.Struct as the object that it stands for. */
function plainOf(struct: unknown): unknown {
  const { fields } = struct as { fields: Record<string, Record<string, unknown>> };
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, plainValue(value)]));
}

function plainValue(value: Record<string, unknown>): unknown {
  if (value.structValue !== undefined) return plainOf(value.structValue);
  const list = value.listValue as { values: Record<string, unknown>[] } | undefined;
  return list === undefined ? Object.values(value)[0] : list.values.map(plainValue);
}

describe("a response", () => {
  it("contains limit, remaining tokens and reset time", async () => {
    decide = () => decision({ limit, remaining: 99, resetMs: 1_250 }, { unlimited: true }, {});
    const reply = await official.ask({ ...one, descriptors: Array(3).fill(one.descriptors![0]) });
    expect(reply.overall_code).toBe("OK");
    expect(reply.statuses).toEqual([
      {
        code: "OK",
        current_limit: { name: "per-user", requests_per_unit: 100, unit: "MINUTE" },
        limit_remaining: 99,
        duration_until_reset: { seconds: "1", nanos: 250_000_000 },
      },
      { code: "OK", limit_remaining: 0xffff_ffff },
      { code: "OK" },
    ]);
    expect(Object.fromEntries(reply.response_headers_to_add!.map(({ key, value }) => [key, value]))).toEqual({
      "X-RateLimit-Cost": "1",
      "X-RateLimit-Limit": "100",
      "X-RateLimit-Remaining": "99",
      "RateLimit-Policy": '"per-user";q=100;w=60',
      RateLimit: '"per-user";r=99;t=2',
    });
    expect(reply.raw_body).toBeUndefined();
  });

  it("is over limit if one descriptor is, with headers and a body for the client", async () => {
    const over = { allowed: false, code: "quota_exhausted", limit, retryAfterMs: 1_001, resetMs: 60_000 };
    decide = () => decision({ limit, remaining: 3, resetMs: 10 }, over);
    const reply = await official.ask({ ...one, hits_addend: 7, descriptors: Array(2).fill(one.descriptors![0]) });
    expect(reply.overall_code).toBe("OVER_LIMIT");
    expect(reply.statuses?.map(({ code }) => code)).toEqual(["OK", "OVER_LIMIT"]);
    const headers = Object.fromEntries(reply.response_headers_to_add!.map(({ key, value }) => [key, value]));
    expect(headers).toMatchObject({ "X-RateLimit-Cost": "7", "Retry-After": "2", "content-type": "application/json" });
    expect(JSON.parse(reply.raw_body!.toString())).toEqual({
      error: "rate_limit_exceeded",
      reason: "quota_exhausted",
      app_id: "per-user",
      retry_after: 2,
      remaining: 0,
      limit: 100,
    });
    expect(reply.dynamic_metadata?.fields).toMatchObject({
      code: { stringValue: "quota_exhausted" },
      hitsAddend: { numberValue: 7 },
    });
    expect(reply.dynamic_metadata?.fields).not.toHaveProperty("metadata");
  });

  it("in shadow mode allows the request and reports the refusal", async () => {
    decide = () => decision({ code: "quota_exhausted", limit, shadow: true });
    const reply = await client.ask(one);
    expect(reply.overall_code).toBe("OK");
    expect(reply.response_headers_to_add).toContainEqual({
      key: "X-RateLimit-Dry-Run",
      value: "would-refuse; reason=quota_exhausted",
    });
    expect(reply.raw_body).toBeUndefined();
  });

  it("is UNAVAILABLE without the store, never over limit", async () => {
    decide = async () => decision({ limit }, { allowed: false, code: "store_unavailable", limit, retryAfterMs: 1_000 });
    const { code, details } = await refusal(client.ask(one));
    expect(code).toBe(status.UNAVAILABLE);
    expect(details).toContain("store_unavailable");
  });

  it("is over limit without the store if another descriptor is over its limit", async () => {
    const withoutStore = { allowed: false, code: "store_unavailable", limit };
    decide = () => decision(withoutStore, { allowed: false, code: "quota_exhausted", limit });
    expect((await client.ask(one)).overall_code).toBe("OVER_LIMIT");
  });

  it("contains metadata of all types", async () => {
    const metadata = { text: "a", number: 1.5, flag: false, nothing: null, list: [1, "b"], inner: { empty: "" } };
    decide = () => ({ ...decision({ limit }), metadata });
    const fields = {
      text: { stringValue: "a" },
      number: { numberValue: 1.5 },
      flag: { boolValue: false },
      nothing: { nullValue: "NULL_VALUE" },
      list: { listValue: { values: [{ numberValue: 1 }, { stringValue: "b" }] } },
      inner: { structValue: { fields: { empty: { stringValue: "" } } } },
    };
    expect((await official.ask(one)).dynamic_metadata?.fields.metadata).toEqual({ structValue: { fields } });
  });

  it("has metadata as envoyproxy/ratelimit writes it: domain, descriptors, and that of the rules", async () => {
    decide = () => ({ ...decision({ limit }, { limit }), metadata: { service_with_quota: { name: "service_1" } } });
    const descriptors = [
      { entries: [{ key: "user", value: "u=1" }, { key: "path" }] },
      { entries: [{ key: "a", value: "b" }], limit: { requests_per_unit: 5, unit: "MINUTE" } },
    ];
    const reply = await official.ask({ domain: "rl", descriptors });
    expect(plainOf(reply.dynamic_metadata)).toEqual({
      domain: "rl",
      descriptors: [{ entries: ["user=u=1", "path="] }, { entries: ["a=b"], limit: "requests_per_unit:5 unit:MINUTE" }],
      metadata: { service_with_quota: { name: "service_1" } },
    });
  });

  it("of a rule without a name is named by its domain and keys in the policy", async () => {
    decide = () => decision({ limit: { ...limit, name: "", label: "limit:rl/foo/bar" } });
    expect((await client.ask(one)).response_headers_to_add).toContainEqual({
      key: "RateLimit-Policy",
      value: '"limit:rl/foo/bar";q=100;w=60',
    });
  });

  it("quotes names with any characters", async () => {
    decide = () => decision({ limit: { ...limit, name: 'a"b\\c\nü' } });
    const policy = (await client.ask(one)).response_headers_to_add!.find(({ key }) => key === "RateLimit-Policy");
    expect(policy?.value).toBe('"a\\"b\\\\c??";q=100;w=60');
  });

  it("has all headers for a limit without a name", async () => {
    decide = () => decision({ limit: { ...limit, name: "" }, remaining: 7, resetMs: 1_000 });
    const headers = (await client.ask(one)).response_headers_to_add;
    expect(headers).toContainEqual({ key: "RateLimit-Policy", value: '"default";q=100;w=60' });
    expect(headers).toContainEqual({ key: "RateLimit", value: '"default";r=7;t=1' });
  });
});

describe("calls", () => {
  it("get their own replies, with hundreds in parallel", async () => {
    decide = async ([descriptor]) => {
      const number = Number(descriptor?.entries[0]?.value);
      if (number % 2 === 0) await new Promise((resolve) => setTimeout(resolve, number % 7));
      return decision({ limit: { ...limit, perUnit: number + 1 } });
    };
    const reply = await Promise.all(
      Array.from({ length: 300 }, (_, i) =>
        client.ask({ domain: "edge", descriptors: [{ entries: [{ key: "n", value: String(i) }] }] }),
      ),
    );
    expect(reply.map(({ statuses }) => statuses?.[0]?.current_limit?.requests_per_unit)).toEqual(
      reply.map((_one, i) => i + 1),
    );
  });

  it("of unknown methods are UNIMPLEMENTED", async () => {
    for (const path of ["/envoy.service.ratelimit.v3.RateLimitService/Other", "/a.B/C", "/"]) {
      expect((await refusal(client.raw(path, Buffer.alloc(0)))).code).toBe(status.UNIMPLEMENTED);
    }
  });

  it("end at their deadline", async () => {
    decide = () => new Promise(() => {});
    const { code } = await refusal(client.ask(one, {}, { deadline: Date.now() + 50 }));
    expect(code).toBe(status.DEADLINE_EXCEEDED);
  });

  it("that fail unexpectedly are INTERNAL; details are logged and not sent", async () => {
    decide = () => {
      throw new Error("a secret");
    };
    const { code, details } = await refusal(client.ask(one));
    expect(code).toBe(status.INTERNAL);
    expect(details).not.toContain("secret");
    expect(listener.errors).toHaveLength(1);
    decide = () => Promise.reject(new Error("another"));
    expect((await refusal(client.ask(one))).code).toBe(status.INTERNAL);
  });

  it("with a message that is too large are rejected, and the connection stays open", async () => {
    const { code } = await refusal(client.raw(METHOD, Buffer.alloc(100_001)));
    expect(code).toBe(status.RESOURCE_EXHAUSTED);
    expect((await client.ask(one)).overall_code).toBe("OK");
  });

  it("check the health of a service by name", async () => {
    expect(await client.health()).toBe("SERVING");
    expect(await client.health("a.Service")).toBe("SERVING");
    expect((await refusal(client.health("b"))).code).toBe(status.NOT_FOUND);
  });
});
