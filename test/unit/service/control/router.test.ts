/** Finds the endpoint for a method and a path, or the allowed methods. */
import { expect, it } from "vitest";
import * as z from "zod";
import { createRouter } from "../../../../src/service/control/router.js";
import { type Endpoint, type Method, ok } from "../../../../src/service/operations/endpoint.js";

const endpoint = (method: Method, path: string): Endpoint => ({
  ...{ method, path, role: "public", summary: "", reply: z.string(), handle: () => ok(`${method} ${path}`) },
});

const find = createRouter([
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
  const found = find(method, path);
  expect([`${found?.endpoint?.method} ${found?.endpoint?.path}`, found?.params]).toEqual([name, params]);
});

it.each([
  ["DELETE", "/apps", ["GET", "HEAD"]],
  ["POST", "/apps/video", ["GET", "HEAD", "PUT"]],
  ["get", "/apps", ["GET", "HEAD"]],
])("%s %s has the wrong method", (method, path, allow) => {
  expect(find(method, path)).toMatchObject({ endpoint: undefined, allow });
});

it.each(["", "/", "/apps/", "/apps/a/b", "/apps/%", "/Apps", "//apps", "/apps/../apps", "/__proto__"])(
  "there is no %j",
  (path) => {
    expect(find("GET", path)).toBeUndefined();
  },
);

it("two endpoints with the same method and path are rejected", () => {
  expect(() => createRouter([endpoint("GET", "/a/{x}"), endpoint("GET", "/a/{y}")])).toThrow("defined twice");
});
