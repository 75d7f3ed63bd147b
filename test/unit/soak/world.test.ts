/** The configuration of the soak test is valid. */
import { expect, it } from "vitest";
import { configuration } from "../../../soak/world.js";
import { readConfig } from "../../../src/config/load.js";

it("the configuration of the soak test is valid", () => {
  const { problems } = readConfig(configuration("redis://10.0.0.1:6379", ["127.0.0.1:1", "127.0.0.1:2"]), {});
  expect(problems).toEqual([]);
});
