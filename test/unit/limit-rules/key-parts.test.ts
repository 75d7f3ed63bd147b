/** Key parts: what an operator writes names the bucket of the requests with this value, for every part. */
import { describe, expect, it } from "vitest";
import { matchLimits, type RequestAttributes } from "../../../src/limit-rules/limit-rules.js";
import { sha1 } from "../../../src/limiter/limits/limit-checks.js";
import {
  bytesOf,
  compileLimits,
  KEY_PART,
  KEY_PART_WORDS,
  keyPartText,
  parseKeyPart,
} from "../../../src/limiter/limits/limit-options.js";
import { bucketOfValue } from "../../../src/limiter/limits/limit-values.js";

const parts = KEY_PART_WORDS.replace("NAME", "X-Plan").split(/, | or /);

/** A request with this value, as bytes, in every attribute. */
function requestWith(value: string): RequestAttributes {
  const bytes = bytesOf(value);
  const attributes = { app: bytes, user: bytes, method: bytes, host: bytes, path: bytes, address: bytes };
  return { ...attributes, headerCount: (name) => (name === "x-plan" ? 1 : 0), header: () => bytes };
}

const values: Record<string, string[]> = {
  ip: ["192.0.2.1", "2001:DB8::1"],
  host: ["a.example", "A.Example:8080"],
  route: ["shop.example/a"],
  path: ["/a/../b/", "/Ä%2fb", `/${"long/".repeat(500)}`],
};

describe.each(parts)("%s", (text) => {
  const routes = [{ name: "shop.example/a", host: "shop.example", path: "/a", limits: [] }];
  const rules = compileLimits([{ name: "one", key: [text], rate: "1/s", pathCase: "insensitive" }], routes);

  it.each(values[text] ?? ["ann", "Änne, 100 %", "x".repeat(300)])("names the bucket of its value %s", (value) => {
    const request = text === "route" ? { ...requestWith("/a"), host: "shop.example" } : requestWith(value);
    const { matches } = matchLimits(rules, request, sha1);
    expect(bucketOfValue(rules.rules[0]!, value)).toEqual({ id: matches[0]!.id });
  });

  it("is read and written in the same way", () => {
    const part = parseKeyPart(text)!;
    expect(keyPartText(part)).toBe(text.toLowerCase());
    expect(text).toMatch(KEY_PART);
    expect(`${text}:`).not.toMatch(KEY_PART);
  });
});

it("a value that no request can have is rejected", () => {
  const rule = (key: string) => compileLimits([{ name: "one", key: [key], rate: "1/s" }]).rules[0]!;
  expect(bucketOfValue(rule("ip"), "here")).toBe('must be an address, not "here"');
  expect(bucketOfValue(rule("header:X-Plan"), "a\nb")).toBe('must be a value of header:x-plan, not "a\\nb"');
  expect(parseKeyPart("address")).toBeUndefined();
});
