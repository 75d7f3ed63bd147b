/** Which paths are ambiguous, for any escape and any position. */
import { describe, expect, it } from "vitest";
import { isAmbiguousPath } from "../../../src/shared/ambiguous-path.js";

describe("isAmbiguousPath", () => {
  it.each([
    ...[
      "/..",
      "/a/..",
      "/a/./b",
      "/..;a=b/c",
      "/.;",
      "/a/..%3b",
      "/%2e",
      "/%2E%2e/",
      "/.%2e/a",
      "/a%2Fb",
      "/a%5Cb",
      "/a\\b",
    ],
    ...["//", "/a//", "/%00", "/%1F", "/%7f", "/%252f", "/%25252f", "/%", "/%a", "/%g0", "/a%2"],
  ])("rejects %s", (path) => expect(isAmbiguousPath(path)).toBe(true));

  it.each([
    "/",
    "/a/b.c",
    "/.well-known/x",
    "/...",
    "/a..",
    "/..a",
    "/;a",
    "/a;b=c/d",
    "/%20",
    "/100%25",
    "/a:b@c",
    "/%7E%C3%BC",
  ])("accepts %s", (path) => expect(isAmbiguousPath(path)).toBe(false));
});
