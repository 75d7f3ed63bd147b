/** Reason codes: each means one thing, and each survives being sent, logged and remembered as plain text. */
import { describe, expect, it } from "vitest";
import * as codes from "../../../src/core/codes.js";
import { storedNumber } from "../../../src/core/platform.js";

const all = Object.entries(codes);

describe("reason codes", () => {
  it("are all different", () => {
    expect(new Set(all.map(([, code]) => code)).size).toBe(all.length);
  });

  it("are spelled like their names", () => {
    for (const [name, code] of all) {
      expect(code).toBe(name.startsWith("SLOT_") ? name.slice("SLOT_".length) : name.toLowerCase());
    }
  });

  it("are lower case for tokens and upper case for connection slots, as the documents have them", () => {
    for (const [name, code] of all) expect(code).toMatch(name.startsWith("SLOT_") ? /^[A-Z_]+$/ : /^[a-z_]+$/);
    expect([codes.SLOT_SUCCESS, codes.SLOT_LIMIT_EXCEEDED]).toEqual(["SUCCESS", "LIMIT_EXCEEDED"]);
    expect([codes.QUOTA_EXHAUSTED, codes.CLUSTER_EXHAUSTED, codes.STORE_UNAVAILABLE]).toEqual([
      "quota_exhausted",
      "cluster_exhausted",
      "store_unavailable",
    ]);
  });

  it("are never mistaken for numbers in a remembered answer", () => {
    for (const [, code] of all) expect(storedNumber(code, -0.5)).toBe(-0.5);
  });
});
