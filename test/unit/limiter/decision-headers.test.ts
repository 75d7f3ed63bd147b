import { describe, expect, it } from "vitest";
import { ALL_HEADERS } from "../../../src/core/response-headers.js";
import { decisionHeaders } from "../../../src/limiter/decision-headers.js";
import type { Decision, LimitDecision } from "../../../src/limiter/limiter-contract.js";

function limit(name: string, remaining: number, others: Partial<LimitDecision> = {}): LimitDecision {
  return {
    name,
    cost: 1,
    code: "ok",
    allowed: true,
    dryRun: false,
    remaining,
    limit: 10,
    rate: 5,
    unit: "requests",
    ...others,
  };
}

function decision(limits: LimitDecision[], others: Partial<Decision> = {}): Decision {
  return {
    ...{ allowed: true, code: "ok", dryRun: false, app: "shop", method: "GET", cost: 2, balance: 8, remaining: 8 },
    ...{ limit: 20, rate: 10, retryAfterMs: 0, source: "local", limits, ...others },
  };
}

describe("the headers of a decision with limits", () => {
  it("list every limit, the shown one last, also if requests with other limits come in between", () => {
    const headersOf = decisionHeaders(ALL_HEADERS);
    const userFirst = decision([limit("user", 3), limit("ip", 9)]);
    const addressFirst = decision([limit("user", 7), limit("ip", 1)]);
    const appFirst = decision([limit("user", 9), limit("ip", 10)]);
    const single = decision([limit("ip", 4)]);
    const other = decision([limit("user", 3)], { app: "blog" });
    for (let i = 0; i < 2; i++) {
      expect(headersOf(userFirst)).toEqual({
        "X-RateLimit-Cost": "1",
        "X-RateLimit-Limit": "10",
        "X-RateLimit-Remaining": "3",
        "RateLimit-Policy": '"shop";q=20;w=2;qu="tokens", "ip";q=10;w=2, "user";q=10;w=2',
        RateLimit: '"shop";r=8;t=2, "ip";r=9;t=1, "user";r=3;t=2',
      });
      expect(headersOf(addressFirst)).toMatchObject({
        "RateLimit-Policy": '"shop";q=20;w=2;qu="tokens", "user";q=10;w=2, "ip";q=10;w=2',
        RateLimit: '"shop";r=8;t=2, "user";r=7;t=1, "ip";r=1;t=2',
      });
      expect(headersOf(appFirst)).toMatchObject({
        "X-RateLimit-Cost": "2",
        "X-RateLimit-Remaining": "8",
        "RateLimit-Policy": '"user";q=10;w=2, "ip";q=10;w=2, "shop";q=20;w=2;qu="tokens"',
        RateLimit: '"user";r=9;t=1, "ip";r=10;t=0, "shop";r=8;t=2',
      });
      expect(headersOf(single)).toMatchObject({
        "RateLimit-Policy": '"shop";q=20;w=2;qu="tokens", "ip";q=10;w=2',
        RateLimit: '"shop";r=8;t=2, "ip";r=4;t=2',
      });
      expect(headersOf(other)).toMatchObject({ "RateLimit-Policy": '"blog";q=20;w=2;qu="tokens", "user";q=10;w=2' });
    }
  });

  it("show changed numbers of a limit", () => {
    const headersOf = decisionHeaders(ALL_HEADERS);
    const policyOf = (changed: LimitDecision) => headersOf(decision([changed]))["RateLimit-Policy"];
    expect(policyOf(limit("user", 3))).toBe('"shop";q=20;w=2;qu="tokens", "user";q=10;w=2');
    expect(policyOf(limit("user", 3, { limit: 5 }))).toBe('"shop";q=20;w=2;qu="tokens", "user";q=5;w=1');
    expect(policyOf(limit("user", 3))).toBe('"shop";q=20;w=2;qu="tokens", "user";q=10;w=2');
  });

  it("show the limit that refused the request, even if another one has fewer tokens", () => {
    const headersOf = decisionHeaders(ALL_HEADERS);
    const refused = { allowed: false, code: "quota_exhausted", retryAfterMs: 900 };
    const made = decision([limit("user", 3, { allowed: false }), limit("ip", 1)], { ...refused, limitName: "user" });
    expect(headersOf(made)).toMatchObject({ "X-RateLimit-Remaining": "3", "Retry-After": "1" });
    expect(headersOf(decision([limit("user", 3)], refused))).toMatchObject({ "X-RateLimit-Remaining": "8" });
  });

  it("are those of a dry run if one of the limits is on one", () => {
    const headersOf = decisionHeaders(ALL_HEADERS);
    expect(headersOf(decision([limit("user", 3, { dryRun: true })]))).toHaveProperty("X-RateLimit-Dry-Run", "pass");
    expect(headersOf(decision([limit("user", 3)]))).not.toHaveProperty("X-RateLimit-Dry-Run");
  });
});
