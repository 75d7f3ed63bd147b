/** Which paths the configuration rejects. */
import { expect, it } from "vitest";
import { readConfig } from "../../../src/config/load.js";
import { camelCase } from "../../../src/config/options/camel-case.js";
import { pathRules } from "../../../src/config/options/path-rules.js";
import { describeProblem } from "../../../src/config/problem.js";

const read = (limits: string) => readConfig(`request_limits: ${limits}\n`, {});
const rulesOf = (limits: string, routes: number) => pathRules(camelCase(read(limits).config!.request_limits), routes);

it.each([
  ["{}", 1, { strict: false, keepsEncodedSlashes: true }],
  ["{}", 2, { strict: false, keepsEncodedSlashes: false }],
  ["{ encoded_slashes: keep }", 2, { strict: false, keepsEncodedSlashes: true }],
  ["{ encoded_slashes: reject }", 1, { strict: false, keepsEncodedSlashes: false }],
  ["{ path: strict }", 1, { strict: true, keepsEncodedSlashes: false }],
  ["{ path: strict, encoded_slashes: keep }", 2, { strict: true, keepsEncodedSlashes: true }],
] as const)("%s with %i routes: %o", (limits, routes, expected) => expect(rulesOf(limits, routes)).toEqual(expected));

it("the former value any is rejected with the value to write now", () => {
  expect(read("{ path: any }").problems.map(describeProblem)).toEqual([
    'request_limits.path: must be resolve or strict: any is now resolve (is "any")',
  ]);
});
