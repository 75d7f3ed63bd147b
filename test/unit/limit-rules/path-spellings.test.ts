/** Which limits a path has, in all its spellings, and the value that it is counted under. */
import { describe, expect, it } from "vitest";
import { matchLimits } from "../../../src/limit-rules/limit-rules.js";
import { compileLimits, type LimitOptions } from "../../../src/limiter/limits/limit-options.js";

/** The ids of the buckets, without the name of the limit. */
function bucketsOf(limit: Partial<LimitOptions>, path: string, host = "a", routedPath?: string): string[] {
  const routes = [
    { name: "/", host: "", path: "/", limits: [] },
    { name: "/private/", host: "", path: "/private/", limits: [] },
    { name: "vip/", host: "VIP", path: "/", limits: [] },
  ];
  const rules = compileLimits([{ name: "one", rate: "1/s", ...limit }], routes);
  const attributes = { app: "x", user: "u", method: "GET", host, path, routedPath, address: "192.0.2.1" };
  const found = matchLimits(rules, { ...attributes, headerCount: () => 0, header: () => "" }, (text) => text);
  return found.matches
    .slice(0, found.count)
    .map(({ id, denied }) => id.replace("limit:one:", "") + (denied ? "!" : ""));
}

const applies = (limit: Partial<LimitOptions>, path: string, host?: string) =>
  bucketsOf(limit, path, host).length === 1;

describe("match.path", () => {
  it.each([
    ...["/login", "/login/", "/login/x", "/login?x", "/login#x", "/%6Cogin", "//login", "/./login", "/x/../login"],
    ...["/login;x", "/x/..;/login", "/login%2fx", "/login%5cx", "/x%2f..%2flogin", "/login%2f..%2fx", "/;/login"],
  ])("/login matches %s", (path) => {
    expect(applies({ match: { path: ["/login"] } }, path)).toBe(true);
    expect(applies({ match: { path: ["/login/"] } }, path), "a slash at the end makes no difference").toBe(true);
  });

  it.each(["/", "/loginx", "/LOGIN", "/x/login", "/login%20"])("/login does not match %s", (path) => {
    expect(applies({ match: { path: ["/login"] } }, path)).toBe(false);
  });

  it("is compared in one form, whatever its own spelling", () => {
    for (const path of ["/caf%c3%a9", "/caf%C3%A9", "/café", "//caf%C3%A9/", "/x/../caf%c3%a9"]) {
      expect(applies({ match: { path: [path] } }, "/caf%C3%a9")).toBe(true);
      expect(applies({ match: { path: [path] } }, "/caf\xc3\xa9")).toBe(true);
    }
    expect(applies({ match: { path: ["/*%c3%a9*"] } }, "/caf%C3%A9")).toBe(true);
  });

  it("with * ignores a slash at the end", () => {
    expect(applies({ match: { path: ["*/edit"] } }, "/x/edit/")).toBe(true);
    expect(applies({ match: { path: ["*/edit/"] } }, "/x/edit")).toBe(true);
    expect(applies({ match: { path: ["/files/*"] } }, "/files/")).toBe(true);
    expect(applies({ match: { path: ["/files/*"] } }, "/files")).toBe(false);
  });

  it("ignores the case of letters if configured", () => {
    const match = { path: ["/Login", "*/EDIT", "/caf%c3%a9"] };
    for (const path of ["/LOGIN", "/login", "/x/Edit/", "/CAF%C3%A9"]) {
      expect(applies({ match, pathCase: "insensitive" }, path)).toBe(true);
      expect(applies({ match }, path)).toBe(false);
    }
  });

  it("also matches the path that a server has rewritten", () => {
    expect(bucketsOf({ match: { path: ["/internal/"] } }, "/v1/x", "a", "/internal/x")).toHaveLength(1);
    expect(bucketsOf({ match: { path: ["/v1/"] } }, "/v1/x", "a", "/internal/x")).toHaveLength(1);
  });
});

describe("match.route", () => {
  it.each(["/private/x", "/%70rivate/x", "/private%2fx", "/x/..%2fprivate/x", "/private;a/x"])(
    "applies to %s",
    (path) => {
      expect(applies({ match: { route: ["/private/"] } }, path)).toBe(true);
    },
  );

  it.each(["VIP", "vip.", "vip:80", "Vip.:80"])("applies to the host %s", (host) => {
    expect(applies({ match: { route: ["vip/"] } }, "/", host)).toBe(true);
  });
});

describe("all spellings of a value share a bucket", () => {
  it("of a path", () => {
    const spellings = ["/a/b", "/a/b/", "/a//b", "/a/./b", "/%61/b", "/a/b;x", "/a%2Fb", "/a%2fb?x", "/x/../a/b"];
    const ids = spellings.map((path) => bucketsOf({ key: ["path"] }, path)[0]);
    expect([...new Set(ids)]).toEqual(["_2fa_2fb"]);
    const hex = ["/caf%c3%a9", "/caf%C3%A9", "/caf%C3%a9", "/caf\xc3\xa9"].map(
      (path) => bucketsOf({ key: ["path"] }, path)[0],
    );
    expect([...new Set(hex)]).toHaveLength(1);
    expect(bucketsOf({ key: ["path"], pathCase: "insensitive" }, "/A/b")).toEqual(["_2fa_2fb"]);
    expect(bucketsOf({ key: ["path"] }, "/A/b")).toEqual(["_2fA_2fb"]);
  });

  it("of a host", () => {
    const ids = ["a.b", "A.b", "a.b.", "a.b:80", "A.B.:80"].map((host) => bucketsOf({ key: ["host"] }, "/", host)[0]);
    expect([...new Set(ids)]).toEqual(["a.b"]);
  });

  it("in allow and deny", () => {
    const limit = { key: ["path"], deny: ["/Admin/"], allow: ["/caf%c3%a9"] };
    expect(bucketsOf(limit, "/Admin")).toEqual(["_2fAdmin!"]);
    expect(bucketsOf(limit, "/caf%C3%A9/")).toEqual([]);
    expect(bucketsOf({ ...limit, pathCase: "insensitive" }, "/ADMIN")).toEqual(["_2fadmin!"]);
    expect(bucketsOf({ key: ["host"], deny: ["Evil.Example."] }, "/", "evil.example:80")).toEqual(["evil.example!"]);
  });
});
