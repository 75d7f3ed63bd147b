/** Rule matching: the compiled tree finds the same rule as the lookup of envoyproxy/ratelimit. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileRules, type DescriptorRule, matchesPattern } from "../../../../src/limiter/descriptors/rules.js";
import { domain, entries, limit, rule } from "./rule-examples.js";

describe("a descriptor", () => {
  const rules = compileRules([
    domain(
      rule("path=/a", limit(1)),
      rule("path=/a*", limit(2)),
      rule("path=/*/end", limit(3)),
      rule("path", limit(4)),
      rule("user=vip", limit(5), [rule("path=/a", limit(6)), rule("path", limit(7))]),
      rule("user", undefined, [rule("path", limit(8))]),
    ),
  ]);
  const met = (...all: string[]) => rules.match("shop", entries(...all))?.perUnit;

  it("matches an equal value first, then the first matching pattern, then the rule for any value", () => {
    const values = ["path=/a", "path=/ab", "path=/ab/end", "path=/b/end", "path=/b"];
    expect(values.map((value) => met(value))).toEqual([1, 2, 2, 3, 4]);
    expect(met("path=")).toBe(4);
  });

  it("matches a limit only with all of its entries, and no more", () => {
    expect([met("user=vip"), met("user=vip", "path=/a"), met("user=vip", "path=/b")]).toEqual([5, 6, 7]);
    expect([met("user=bob"), met("user=bob", "path=/a")]).toEqual([undefined, 8]);
    expect(met("path=/a", "user=vip")).toBeUndefined();
    expect(met("user=vip", "path=/a", "path=/a")).toBeUndefined();
    expect(met()).toBeUndefined();
  });

  it("does not match in another domain or with another key", () => {
    expect(rules.match("other", entries("path=/a"))).toBeUndefined();
    expect(met("Path=/a")).toBeUndefined();
    expect([rules.hasDomain("shop"), rules.hasDomain("other")]).toEqual([true, false]);
  });

  it("is not matched with backtracking", () => {
    const narrow = compileRules([
      domain(rule("a=1", undefined, [rule("b=1", limit(1))]), rule("a", undefined, [rule("b", limit(2))])),
    ]);
    expect(narrow.match("shop", entries("a=1", "b=2"))).toBeUndefined();
    expect(narrow.match("shop", entries("a=2", "b=2"))?.perUnit).toBe(2);
  });
});

it.each([
  ["a*", "a", true],
  ["a*", "ba", false],
  ["*", "", true],
  ["a*b", "ab", true],
  ["a*a", "a", false],
  ["a*b*c", "aXbXc", true],
  ["a*b*c", "abc", true],
  ["a*bc*c", "abc", false],
  ["*b*", "abc", true],
  ["a**b", "ab", true],
])("pattern %s and value %s: %s", (pattern, value, expected) => {
  expect(matchesPattern(pattern.split("*"), value)).toBe(expected);
});

describe("compiled rules", () => {
  const texts = fc.string({ unit: fc.constantFrom("x", "y"), maxLength: 3 });
  const values = fc.oneof(
    fc.constant(undefined),
    texts.filter((text) => text !== ""),
    fc.tuple(texts, texts).map(([before, after]) => `${before}*${after}`),
    fc.tuple(texts, texts, texts).map((parts) => parts.join("*")),
  );
  const keys = fc.constantFrom("k", "l");
  const list = (depth: number): fc.Arbitrary<DescriptorRule[]> =>
    fc
      .uniqueArray(
        fc.tuple(
          keys,
          values,
          fc.option(fc.nat(1e9)),
          depth === 0 ? fc.constant<DescriptorRule[]>([]) : list(depth - 1),
        ),
        {
          minLength: 2,
          maxLength: 6,
          selector: ([key, value]) => `${key} ${value}`,
        },
      )
      .map((all) =>
        all.map(([key, value, perUnit, nested]) =>
          rule(value === undefined ? key : `${key}=${value}`, perUnit === null ? undefined : limit(perUnit), nested),
        ),
      );

  /** The lookup of envoyproxy/ratelimit: key and value are joined to a name, with one map per level. */
  function naive(
    descriptors: readonly DescriptorRule[],
    asked: { key: string; value: string }[],
  ): DescriptorRule | undefined {
    const [first, ...rest] = asked;
    if (first === undefined) return undefined;
    const nameOf = ({ key, value }: DescriptorRule) => (value === undefined ? key : `${key}_${value}`);
    const wanted = `${first.key}_${first.value}`;
    const asPattern = (name: string) => new RegExp(`^${name.replaceAll("*", "[^]*")}$`);
    const found =
      descriptors.find((one) => nameOf(one) === wanted) ??
      descriptors.find((one) => nameOf(one).includes("*") && asPattern(nameOf(one)).test(wanted)) ??
      descriptors.find((one) => nameOf(one) === first.key);
    if (found === undefined || rest.length === 0) return found?.limit === undefined ? undefined : found;
    return naive(found.descriptors, rest);
  }

  it("match like the lookup of envoyproxy/ratelimit", () => {
    const asked = fc.array(fc.record({ key: keys, value: texts }), { minLength: 1, maxLength: 3 });
    let met = 0;
    fc.assert(
      fc.property(list(2), fc.array(asked, { minLength: 10, maxLength: 20 }), (descriptors, all) => {
        const rules = compileRules([domain(...descriptors)]);
        for (const one of all) {
          const expected = naive(descriptors, one);
          const got = rules.match("shop", one);
          expect(got?.perUnit).toBe(expected?.limit?.perUnit);
          if (got !== undefined) met++;
        }
      }),
      { seed: 7, numRuns: 150 },
    );
    expect(met).toBeGreaterThan(200);
  });
});
