/** Routes: the longest prefix of the right host, and none where a path could mean two. */
import { describe, expect, it } from "vitest";
import { createRouteTable } from "../../../../src/planes/node/http/routes.js";

const table = createRouteTable(
  [
    { path: "/", host: "Shop.Example", upstream: "shop" },
    { path: "/api", upstream: "segment" },
    { path: "/api/v2/", upstream: "v2" },
    { path: "/admin/", host: "shop.example", upstream: "admin" },
  ],
  (route) => route.upstream,
);

describe("a route is found", () => {
  it.each([
    ["any", "/api", "segment"],
    ["any", "/api/", "segment"],
    ["any", "/api/v1", "segment"],
    ["any", "/apis", undefined],
    ["any", "/api/v2", "segment"],
    ["any", "/api/v2/", "v2"],
    ["any", "/api/v2/deep/down", "v2"],
    ["any", "/", undefined],
    ["SHOP.example:8080", "/api", "shop"],
    ["shop.example", "/admin/users", "admin"],
    ["shop.example", "/adminusers", "shop"],
    ["", "/api", "segment"],
  ])("for %s %s: %s", (host, path, expected) => expect(table.find(host, path)).toBe(expected));
});

describe("a path with encoded slashes", () => {
  it.each([
    ["/api/v2/..%2Fx", undefined],
    ["/api%2Fv2/x", undefined],
    ["/api/v2/x%2Fy", "v2"],
    ["/api/x%2F..%2Fy", "segment"],
    ["/api/a%20b", "segment"],
    ["/api/.hidden", "segment"],
  ])("%s leads to %s: to a place only if both readings agree", (path, expected) => {
    expect(table.find("any", path)).toBe(expected);
  });
});

it("hosts and paths of routes are found in any spelling", () => {
  const odd = createRouteTable([{ path: "/caf%c3%a9", host: "Example.COM.", upstream: "x" }], () => 1);
  expect(odd.find("example.com", "/caf%C3%A9/x")).toBe(1);
  expect(odd.find("EXAMPLE.com.:80", "/caf%C3%A9")).toBe(1);
});

it("a route without a leading slash is refused", () => {
  expect(() => createRouteTable([{ path: "api", upstream: "x" }], () => 1)).toThrow('"api"');
});
