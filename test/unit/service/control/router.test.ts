/** Finds the endpoint for a method and a path, or the allowed methods. */
import { expect, it } from "vitest";
import * as z from "zod";
import { bind, describe, type Method } from "../../../../src/service/control/endpoint.js";
import { createRouter } from "../../../../src/service/control/router.js";
import { ok } from "../../../../src/service/operations/reply.js";

const endpoint = (method: Method, path: string) =>
  bind(describe({ method, path, role: "public", summary: "", reply: z.string() }), () => ok(`${method} ${path}`));

const router = createRouter([
  endpoint("GET", "/apps"),
  endpoint("GET", "/apps/{id}"),
  endpoint("PUT", "/apps/{id}"),
  endpoint("GET", "/apps/all"),
  endpoint("POST", "/{a}/x/{b}"),
]);

it.each([
  ["GET", "/apps", "GET /apps", {}],
  ["HEAD", "/apps", "GET /apps", {}],
  ["GET", "/apps/video", "GET /apps/{id}", { id: "video" }],
  ["GET", "/apps/all", "GET /apps/all", {}],
  ["PUT", "/apps/a%2Fb%20c", "PUT /apps/{id}", { id: "a/b c" }],
  ["POST", "/p/x/q", "POST /{a}/x/{b}", { a: "p", b: "q" }],
])("%s %s", (method, path, name, params) => {
  const found = router.find(method, path);
  if (found === undefined || !("endpoint" in found)) throw new Error("not found");
  expect([`${found.endpoint.method} ${found.endpoint.path}`, found.params]).toEqual([name, params]);
});

it.each([
  ["DELETE", "/apps", ["GET", "HEAD"]],
  ["POST", "/apps/video", ["GET", "HEAD", "PUT"]],
  ["get", "/apps", ["GET", "HEAD"]],
])("%s %s has the wrong method", (method, path, allow) => {
  expect(router.find(method, path)).toEqual({ allow });
});

it.each(["", "/", "/apps/", "/apps/a/b", "/apps/%", "/Apps", "//apps", "/apps/../apps", "/__proto__"])(
  "there is no %j",
  (path) => {
    expect(router.find("GET", path)).toBeUndefined();
  },
);

it("two endpoints with the same method and path are rejected", () => {
  expect(() => createRouter([endpoint("GET", "/a/{x}"), endpoint("GET", "/a/{y}")])).toThrow("defined twice");
});
