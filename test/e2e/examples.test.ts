/** The examples do what their pages say: every command is run, and what it prints is compared with the page. */
import { describe, expect, it } from "vitest";
import { findEnvoy } from "../support/find-envoy.js";
import { runPage } from "../support/page-commands.js";

describe("the pages of the examples", () => {
  it.each(["simple", "advanced", "library"])("%s", async (name) => {
    expect(await runPage(`examples/${name}/README.md`)).toBeGreaterThan(3);
  });

  it.skipIf(findEnvoy() === undefined)("envoy-websockets", async () => {
    expect(await runPage("examples/envoy-websockets/README.md")).toBeGreaterThan(3);
  });
});
