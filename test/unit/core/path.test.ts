/** One form for all spellings of a path, and which paths gateways reject. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalPath, forwardedPath, isAcceptedPath, pathReadings, pathValue } from "../../../src/core/path.js";
import { rejectedPaths } from "../../../src/render/envoy/rejected-paths.js";
import { pathSpellings } from "../../support/path-spellings.js";

const RESOLVE = { strict: false, keepsEncodedSlashes: false };
const KEEP = { strict: false, keepsEncodedSlashes: true };
const STRICT = { strict: true, keepsEncodedSlashes: false };

/** Pieces of which paths with several spellings are made. */
const piece = fc.constantFrom(
  ...["/", "//", ".", "..", "%2e", "%2E", "%2f", "%5C", "\\", "%", "%zz", "%25", "%41", "%c3%a9", "%C3%A9", "\xe9"],
  ...["a", "B", ";", ";x=1", "?", "#", "%3f", "%23", "%00", "%7f", " ", "%20", ",", "%2C", "~", "_", '"', "^", "["],
);
const target = fc.array(piece, { maxLength: 12 }).map((pieces) => `/${pieces.join("")}`);

describe("the canonical path", () => {
  it.each([
    ["/", "/"],
    ["/a/b.c", "/a/b.c"],
    ["/a?b=//../%2e", "/a"],
    ["/a#b", "/a"],
    ["/%61%2D%7e", "/a-~"],
    ["/caf%c3%a9", "/caf%C3%A9"],
    ["/caf\xc3\xa9", "/caf%C3%A9"],
    ["/a%2cb%3Bc", "/a,b;c"],
    ["/a%2fb%5cc", "/a%2Fb%5Cc"],
    ["/a\\b", "/a%5Cb"],
    ["/a%20b%3f%23%25", "/a%20b%3F%23%25"],
    ["/a//b///c", "/a/b/c"],
    ["/a/./b/../c", "/a/c"],
    ["/a/%2e%2E/b", "/b"],
    ["/../../a", "/a"],
    ["/a/..", "/"],
    ["/a/b/..", "/a/"],
    ["/a/b/.", "/a/b/"],
    ["/.well-known/...", "/.well-known/..."],
    ["/%zz%", "/%25zz%25"],
    ["/%%34%31", "/%2541"],
  ])("of %s is %s", (path, expected) => expect(canonicalPath(path)).toBe(expected));

  it("is its own canonical path", () => {
    fc.assert(
      fc.property(target, (text) => {
        expect(canonicalPath(canonicalPath(text))).toBe(canonicalPath(text));
      }),
    );
  });

  it("is the same for what is passed on", () => {
    fc.assert(
      fc.property(target, (text) => {
        const path = text.split(/[?#]/)[0]!;
        expect(canonicalPath(forwardedPath(path))).toBe(canonicalPath(path));
        expect(forwardedPath(forwardedPath(path))).toBe(forwardedPath(path));
      }),
    );
  });

  it("is the same as before for paths with one spelling", () => {
    const plain = fc.stringMatching(/^(?:\/[A-Za-z0-9_~!$&'()*+,=:@-][A-Za-z0-9._~!$&'()*+,=:@-]{0,5}){1,4}$/);
    fc.assert(
      fc.property(plain, (path) => {
        expect(canonicalPath(path)).toBe(path);
        expect(forwardedPath(path)).toBe(path);
        expect(pathValue(path)).toBe(path);
        expect(pathReadings(path)).toEqual([path]);
        expect(isAcceptedPath(path, STRICT)).toBe(true);
      }),
    );
  });
});

describe("the path that is passed on", () => {
  it.each([
    ["/a%2cb/%c3%a9", "/a%2cb/%c3%a9"],
    ["/a/%2e%2e/%62", "/%62"],
    ["//a//b/", "/a/b/"],
    ["/a/./b%2Fc", "/a/b%2Fc"],
    ["/a/.", "/a/"],
    ["/..", "/"],
  ])("instead of %s is %s", (path, expected) => expect(forwardedPath(path)).toBe(expected));

  it("has no empty or dot segments", () => {
    fc.assert(
      fc.property(target, (text) => {
        expect(forwardedPath(text.split(/[?#]/)[0]!)).not.toMatch(/\/\/|\/(?:\.|%2e){1,2}(?:\/|$)/i);
      }),
    );
  });
});

describe("the value of a limit", () => {
  it.each([
    ["/login/", "/login"],
    ["/login;x=1", "/login"],
    ["/a;b/c;d", "/a/c"],
    ["/a%2Fb", "/a/b"],
    ["/x%5c..%2flogin", "/login"],
    ["/", "/"],
    ["//", "/"],
  ])("of %s is %s", (path, expected) => expect(pathValue(path)).toBe(expected));
});

describe("a gateway", () => {
  const always = [
    ...[
      "/a#b",
      "/a\\b",
      "/%",
      "/%a",
      "/%g0",
      "/a%2",
      "/%zz",
      "/%u0041",
      "/%00",
      "/%1F",
      "/%7f",
      "/%0d%0a",
      "a",
      "*",
      "",
    ],
    ...["/..;/a", "/a/..;", "/.;x/a", "/a/..%3b/b", "/a/%2e%2e;/b", "/a/.%2E%3Bx"],
  ];
  const encodedSlashes = ["/a%2fb", "/a%2Fb", "/a%5cb", "/%2f", "/a/..%2fb"];
  const unresolved = [
    "/..",
    "/a/..",
    "/a/./b",
    "/%2e",
    "/%2E%2e/",
    "/.%2e/a",
    "//",
    "/a//",
    "/a//b",
    "/%252f",
    "/%25252f",
  ];
  const accepted = [
    ...["/", "/a/b.c", "/.well-known/x", "/...", "/a..", "/..a", "/;a", "/a;b=c/d", "/%20", "/100%25", "/a:b@c"],
    ...["/%7E%C3%BC", "/\xc3\xbc", "/a|b"],
  ];

  it.each(always)("rejects %s", (path) => {
    for (const rules of [RESOLVE, KEEP, STRICT]) expect(isAcceptedPath(path, rules)).toBe(false);
  });

  it.each(encodedSlashes)("rejects %s unless it keeps encoded slashes", (path) => {
    expect(isAcceptedPath(path, RESOLVE)).toBe(false);
    expect(isAcceptedPath(path, KEEP)).toBe(true);
    expect(isAcceptedPath(path, STRICT)).toBe(false);
  });

  it.each(unresolved)("resolves %s unless it is strict", (path) => {
    expect(isAcceptedPath(path, RESOLVE)).toBe(true);
    expect(isAcceptedPath(path, STRICT)).toBe(false);
  });

  it.each(accepted)("accepts %s", (path) => {
    for (const rules of [RESOLVE, KEEP, STRICT]) expect(isAcceptedPath(path, rules)).toBe(true);
  });
});

describe("the pattern for Envoy", () => {
  // RE2 has the flag in the pattern.
  const patternOf = (rules: typeof RESOLVE, routes: string[] = []) =>
    new RegExp(`^${rejectedPaths(rules, routes).replace("(?i)", "")}$`, "is");

  it("rejects the same paths as the other planes", () => {
    // Envoy itself rejects fragments.
    const spellings = pathSpellings(1, 2_000).filter((text) => /^\/[^#]*$/.test(text));
    for (const rules of [RESOLVE, KEEP, STRICT]) {
      const pattern = patternOf(rules);
      for (const path of spellings.map((text) => text.split("?")[0]!)) {
        expect(`${path} ${!pattern.test(path)}`).toBe(`${path} ${isAcceptedPath(path, rules)}`);
      }
    }
  });

  it("rejects encoded characters of routes, which Envoy does not decode", () => {
    expect(patternOf(RESOLVE, ["/a,b"]).test("/a%2Cb")).toBe(true);
    expect(patternOf(RESOLVE, ["/a,b"]).test("/a,b")).toBe(false);
    expect(patternOf(RESOLVE).test("/a%2Cb")).toBe(false);
  });
});
