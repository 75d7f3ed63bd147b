/** Limits on any key: every plane enforces them alike. */
import { describe, expect, it } from "vitest";
import { anyKey, anyKeyOnRls, expected, expectedOnRls, skewedUsers } from "../scenarios/any-key.js";
import type { PlaneKind } from "../support/planes.js";

const kinds: PlaneKind[] = ["node", "nginx", "envoy"];

describe.each(kinds)("limits on any key on %s", (kind) => {
  it("decide as expected", async () => {
    expect(await anyKey(kind)).toEqual(expected);
  });

  it("are not exceeded over three instances with uneven load", () => skewedUsers(kind));
});

it("limits on any key through Envoy's rate limit service decide as expected, over two services", async () => {
  expect(await anyKeyOnRls()).toEqual(expectedOnRls);
});
