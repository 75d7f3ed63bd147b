/** A large configuration is read in a thread of the built program, with the same result as in the process. */
import { expect, it } from "vitest";
import { readConfig } from "../../src/config/load.js";

const built = new URL("../../dist/config/live/read-large.js", import.meta.url).href;
const { readLargeConfig } = (await import(built)) as typeof import("../../src/config/live/read-large.js");

const env = { NAME_OF_NODE: "edge" };
const yaml = (last: string) => {
  const apps = Array.from({ length: 2_000 }, (_, i) => `  app-${i}: { guaranteed: ${i + 1}, profile: iops }\n`);
  return `node_id: \${NAME_OF_NODE}\napps:\n${apps.join("")}${last}`;
};

it("a valid one, with variables and a store layer", async () => {
  const layer = { apps: { "app-7": { burst: 70 } } };
  const loaded = await readLargeConfig(yaml(""), env, layer);
  expect(loaded).toEqual(readConfig(yaml(""), env, layer));
  expect(loaded.config?.apps["app-7"]?.burst).toBe(70);
  expect(Object.isFrozen(loaded.config?.apps["app-7"])).toBe(true);
});

it("an invalid one, with all problems", async () => {
  const wrong = yaml("  wrong: { guaranteed: many }\nlisten: nowhere\n");
  const loaded = await readLargeConfig(wrong, env);
  expect(loaded.problems).toHaveLength(2);
  expect(loaded).toEqual(readConfig(wrong, env));
});
