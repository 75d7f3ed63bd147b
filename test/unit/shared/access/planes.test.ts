/** Who a data plane is, and for which nodes it may act. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { tokenHolders } from "../../../../src/shared/access/bearer-token.js";
import { createPlanes, planeOfNode } from "../../../../src/shared/access/planes.js";

const planes = createPlanes({
  planeToken: "common",
  planes: { "edge-1": ["one", "two"], "edge-1-b": ["three"], certified: [] },
});

describe("a data plane", () => {
  it("is known by one of its tokens, or by its certificate", () => {
    expect(planes.identify("one", [])).toEqual({ plane: "edge-1" });
    expect(planes.identify("two", [])).toEqual({ plane: "edge-1" });
    expect(planes.identify("common", [])).toEqual({ plane: "" });
    expect(planes.identify("", ["certified"])).toEqual({ plane: "certified" });
    expect(planes.identify("one", ["edge-1", "localhost"])).toEqual({ plane: "edge-1" });
    // The certificate restricts the common token.
    expect(planes.identify("common", ["edge-1"])).toEqual({ plane: "edge-1" });
  });

  it("is denied without a token, with a wrong one, and with that of another plane", () => {
    expect(planes.identify("", [])).toEqual({ denied: "no_token" });
    // It has tokens, so it has to send one.
    expect(planes.identify("", ["edge-1"])).toEqual({ denied: "no_token" });
    expect(planes.identify("", ["constructor"])).toEqual({ denied: "no_token" });
    expect(planes.identify("on", [])).toEqual({ denied: "wrong_token" });
    expect(planes.identify("wrong", ["certified"])).toEqual({ denied: "wrong_token" });
    expect(planes.identify("three", ["edge-1"])).toEqual({ denied: "wrong_plane" });
  });

  it("may act for its own nodes only", () => {
    const own = ["edge-1", "edge-1-0a1b", "edge-1.77-123", "edge-1-bc", "edge-1--b"];
    const foreign = [
      "edge-10",
      "edge",
      "edge-",
      "edge-2",
      "Edge-1",
      "edge-1:x",
      "edge-1-b",
      "edge-1-b-7",
      "",
      "x-edge-1",
    ];
    expect(own.filter((node) => planes.mayActFor("edge-1", node))).toEqual(own);
    expect(foreign.filter((node) => planes.mayActFor("edge-1", node))).toEqual([]);
    expect(planes.mayActFor("edge-1-b", "edge-1-b-7")).toBe(true);
    expect(planes.mayActFor("edge-1-b", "edge-1")).toBe(false);
    expect(planes.mayActFor("", "anything")).toBe(true);
  });
});

it("a node belongs to at most one plane", () => {
  const name = fc.stringMatching(/^[ab.-]{1,6}$/);
  fc.assert(
    fc.property(fc.uniqueArray(name, { maxLength: 6 }), name, (names, node) => {
      const all = createPlanes({ planeToken: "", planes: Object.fromEntries(names.map((one) => [one, []])) });
      const owners = names.filter((plane) => all.mayActFor(plane, node));
      expect(owners).toEqual([planeOfNode(node, names)].filter((one) => one !== undefined));
    }),
  );
});

it("an empty token belongs to nobody", () => {
  const holderOf = tokenHolders([["", "nobody"] as const, ["a", "alice"] as const]);
  expect([holderOf(""), holderOf("a"), holderOf("A"), holderOf("aa")]).toEqual([
    undefined,
    "alice",
    undefined,
    undefined,
  ]);
});
