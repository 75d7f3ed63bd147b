/** `tollgate check-config`: all problems at once, for people and for programs. */
import { describe, expect, it } from "vitest";
import { runCommandLine } from "../../../src/cli/command-line.js";
import { badFile, said } from "./bad-files.js";

const example = new URL("../../../examples/gateway.yaml", import.meta.url).pathname;

describe("check-config", () => {
  it("summarises a valid file", async () => {
    expect(await runCommandLine(["check-config", example])).toEqual({
      ...{ exitCode: 0, text: `${example} is valid: 2 apps, 2 routes, 2 upstreams\n` },
    });
  });

  it("lists every problem of an invalid file, with exit code 1 and nothing on stdout", async () => {
    const file = badFile("many-at-once");
    const { exitCode, text, complaint } = await runCommandLine(["check-config", file]);
    expect({ exitCode, text }).toEqual({ exitCode: 1, text: "" });
    expect(complaint).toBe(
      [`the configuration ${file} is invalid`, ...(said["many-at-once"] ?? []).map((line) => `  ${line}`)].join("\n"),
    );
  });

  it("prints the same as JSON", async () => {
    const file = badFile("negative");
    const { exitCode, text } = await runCommandLine(["check-config", file, "--json"]);
    expect(exitCode).toBe(1);
    const wanted = "must be a whole number from 1 to 1000000000";
    expect(JSON.parse(text)).toEqual({
      ...{ file, valid: false },
      problems: [
        { path: "apps.video.guaranteed", value: "-5", reason: "must be a number from 0.000001 to 1000000000" },
        { path: "apps.video.burst", value: "-1", reason: wanted },
      ],
    });
    const good = await runCommandLine(["check-config", "--json", example]);
    expect(good.exitCode).toBe(0);
    expect(JSON.parse(good.text)).toEqual({
      ...{ file: example, valid: true, problems: [], version: expect.stringMatching(/^[0-9a-f]{12}$/) },
      ...{ apps: 2, routes: 2, upstreams: 2 },
    });
  });

  it.each([[[]], [["a.yaml", "b.yaml"]], [["--colour", example]]])("rejects the arguments %j", async (args) => {
    expect(await runCommandLine(["check-config", ...args])).toMatchObject({ exitCode: 2, text: "" });
  });
});
