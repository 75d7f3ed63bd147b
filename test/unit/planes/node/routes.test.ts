/** Routes: the longest prefix of the right host, and none where a path could mean two. */
import { describe, expect, it } from "vitest";
import { createRouteTable, hostName } from "../../../../src/planes/node/http/routes.js";

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

describe("a path with dot segments", () => {
  it.each([
    ["/api/v2/../x", undefined],
    ["/api/v2/%2e%2E/x", undefined],
    ["/api/v2/%2e%2e%2fx", undefined],
    ["/api/v2/./x", "v2"],
    ["/api/v2/x/..", "v2"],
    ["/api/x/../y", "segment"],
    ["/api/..", undefined],
    ["/api/a%20b", "segment"],
    ["/api/.hidden", "segment"],
  ])("%s leads to %s: to a place only if both readings agree", (path, expected) => {
    expect(table.find("any", path)).toBe(expected);
  });
});

describe("a host", () => {
  it("loses its port and its case", () => {
    expect(hostName("A.b:80")).toBe("a.b");
    expect(hostName("[::1]:80")).toBe("[::1]");
    expect(hostName("[::1]")).toBe("[::1]");
  });
});

it("a route without a leading slash is refused", () => {
  expect(() => createRouteTable([{ path: "api", upstream: "x" }], () => 1)).toThrow('"api"');
});
