/** Headers of the rate limit service: off by default, so that they do not occur twice next to those of Envoy's filter. */
import { describe, expect, it } from "vitest";
import { schema } from "../../../src/config/schema.js";
import { outcomeOf } from "../../../src/envoy-service/rate-limit/outcome.js";
import type { DescriptorDecision } from "../../../src/limiter/descriptors/descriptor.js";

const request = { domain: "rl", descriptors: [{ entries: [{ key: "foo", value: "x" }] }], hits: 1, hitsAddend: 0 };

function decision(allowed: boolean): DescriptorDecision {
  const code = allowed ? "ok" : "quota_exhausted";
  const limit = { name: "", label: "limit:rl/foo", perUnit: 2, unit: "minute" as const };
  const numbers = { remaining: 0, resetMs: 60_000, retryAfterMs: allowed ? 0 : 30_000 };
  return { allowed, code, statuses: [{ allowed, code, limit, unlimited: false, shadow: false, ...numbers }] };
}

describe("without envoy.response_headers", () => {
  it("an admitted request gets no headers and no metadata", () => {
    expect(outcomeOf(request, decision(true), undefined)).toMatchObject({ isOver: false, headers: [] });
    expect(outcomeOf(request, decision(true), undefined)).not.toHaveProperty("metadata");
  });

  it("a refusal gets Retry-After and the type of its body", () => {
    const { headers } = outcomeOf(request, decision(false), undefined);
    expect(headers).toEqual([
      ["Retry-After", "30"],
      ["content-type", "application/json"],
    ]);
  });

  it("which is the default", () => {
    expect(schema.parse({}).envoy.response_headers).toBe(false);
  });
});

it("a policy is named after its rule, and counts requests; that of an app counts tokens", () => {
  const all = { xRateLimit: true, ietf: true };
  expect(outcomeOf(request, decision(true), all).headers).toContainEqual([
    "RateLimit-Policy",
    '"limit:rl/foo";q=2;w=60',
  ]);
  expect(outcomeOf({ ...request, domain: "tollgate" }, decision(true), all).headers).toContainEqual([
    "RateLimit-Policy",
    '"limit:rl/foo";q=2;w=60;qu="tokens"',
  ]);
});
