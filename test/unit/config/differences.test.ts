/** Differences of two configurations, as operators read them. */
import { expect, it } from "vitest";
import { configDifferences } from "../../../src/config/live/differences.js";
import { readConfig } from "../../../src/config/load.js";

function configOf(yaml: string) {
  const { config, problems } = readConfig(yaml, {});
  if (config === undefined) throw new Error(JSON.stringify(problems));
  return config;
}

const differences = (before: string, after: string, most = 100) =>
  configDifferences(configOf(before), configOf(after), most).map(({ path, before: old, after: now }) => [
    path,
    old,
    now,
  ]);

it("are single options with their old and new values", () => {
  expect(
    differences(
      "apps: { a: { burst: 20 }, b: { burst: 5 } }",
      "apps: { a: { burst: 30 }, b: { burst: 5, dry_run: true } }",
    ),
  ).toEqual([
    ["apps.a.burst", "20", "30"],
    ["apps.b.dry_run", "false", "true"],
  ]);
  expect(differences("workers: 2", "workers: 2")).toEqual([]);
});

it("list the options of an app that was added or removed", () => {
  const found = differences("apps: { a: {} }", "apps: { b: { burst: 7 } }");
  expect(found).toContainEqual(["apps.b.burst", null, "7"]);
  expect(found).toContainEqual(["apps.a.priority", "2", null]);
});

it("find a limit or route by its name, wherever it is in the list", () => {
  const first = "limits: [{ name: one, rate: 1/s }, { name: two, rate: 2/s }]";
  const second = "limits: [{ name: zero, rate: 9/s }, { name: one, rate: 1/s }, { name: two, rate: 3/s }]";
  const found = differences(first, second);
  expect(found).toContainEqual(["limits.two.rate", "2/s", "3/s"]);
  expect(found).toContainEqual(["limits.zero.rate", null, "9/s"]);
  expect(found.filter(([path]) => path!.startsWith("limits.one"))).toEqual([]);
  const routes = (upstream: string) =>
    `upstreams: { a: { targets: ["127.0.0.1:1"] }, b: { targets: ["127.0.0.1:2"] } }\nroutes: [{ path: /x, upstream: ${upstream} }]`;
  expect(differences(routes("a"), routes("b"))).toEqual([['routes["/x"].upstream', "a", "b"]]);
});

it("hide secrets, and are bounded in number and length", () => {
  const secret = (letter: string) =>
    `control: { admin_token: ${letter.repeat(20)}, operators: { ann: ${letter.repeat(24)} } }`;
  expect(differences(secret("a"), secret("b"))).toEqual([
    ["control.admin_token", "(hidden)", "(hidden)"],
    ["control.operators", "(hidden)", "(hidden)"],
  ]);
  const many = (burst: number) =>
    `apps: { ${Array.from({ length: 50 }, (_, i) => `a${i}: { burst: ${burst} }`).join(", ")} }`;
  expect(differences(many(1), many(2), 10)).toHaveLength(10);
});
