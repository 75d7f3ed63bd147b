/** `tollgate check-config`: all problems at once, for people and for programs. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { runCommandLine } from "../../../src/cli/command-line.js";
import { badFile, said } from "./bad-files.js";

const example = new URL("../../../examples/gateway.yaml", import.meta.url).pathname;

const neverMet = new URL("./never-met.yaml", import.meta.url).pathname;
const limited = new URL("./limited.yaml", import.meta.url).pathname;

describe("check-config", () => {
  it("summarises a valid file", async () => {
    expect(await runCommandLine(["check-config", example])).toEqual({
      ...{ exitCode: 0, text: `${example} is valid: 2 apps, 2 routes, 2 upstreams\n` },
    });
  });

  it("counts limits and domains, if there are any", async () => {
    expect((await runCommandLine(["check-config", limited])).text).toMatch(/^\S+ is valid: .*, [1-9]\d* limits?\b/);
    const file = join(mkdtempSync(join(tmpdir(), "tollgate-")), "domains.yaml");
    writeFileSync(file, "rate_limits: [{ domain: shop, descriptors: [] }]\n");
    const { text } = await runCommandLine(["check-config", file]);
    rmSync(dirname(file), { recursive: true });
    expect(text).toBe(`${file} is valid: 1 app, 0 routes, 0 upstreams, 1 domain of rate_limits\n`);
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
      ...{ apps: 2, routes: 2, upstreams: 2, limits: 0, domains: 0, warnings: [] },
    });
  });

  it("warns about limits that can never be met", async () => {
    const { exitCode, text } = await runCommandLine(["check-config", neverMet]);
    expect(exitCode).toBe(0);
    const jobs = "can never pay for POST on the route /jobs/, which cost up to 50 before any byte";
    const writes = "can never pay for POST, PUT, PATCH, which cost up to 5 before any byte";
    expect(text.split("\n").slice(1)).toEqual([
      `warning: apps.small.burst: a burst of 3 ${writes}`,
      `warning: apps.small.burst: a burst of 3 can never pay for POST, PUT, PATCH on the route /jobs/, which cost up to 50 before any byte`,
      `warning: apps.short.burst: a burst of 15 ${jobs}`,
      "warning: apps.short.burst: a burst of 15 pays for a PUT of 655360 bytes, but request_limits.body_bytes is 1048576",
      "warning: apps.fast.guaranteed: is above cluster.rate, 100, which all apps share",
      "warning: apps.fast.burst: is above cluster.capacity, 500, which all apps share",
      `warning: apps.responses.burst: a burst of 15 ${jobs}`,
      "warning: cluster.rate: the guaranteed rates of all apps sum to 271, above cluster.rate, 100: when all are used, apps take from each other",
      `warning: limits[0] by-cost: a burst of 2 ${writes}`,
      "warning: limits[0] by-cost: a burst of 2 can never pay for POST, PUT, PATCH on the route /jobs/, which cost up to 50 before any byte",
      "",
    ]);
    const json = await runCommandLine(["check-config", neverMet, "--json"]);
    expect(JSON.parse(json.text).warnings).toHaveLength(10);
  });

  it.each([
    ["/api/.*", "the dot in .*"],
    ["/(a|b)", "("],
    ["/users/[0-9]+", "["],
    ["/users/{id}", "{"],
    ["/api$", "$"],
    ["/a+b", "+"],
    ["*^x", "^"],
  ])("warns that match.path is no regular expression: %s", async (path, literal) => {
    const file = join(mkdtempSync(join(tmpdir(), "tollgate-path-")), "c.yaml");
    writeFileSync(file, `limits: [{ name: api, rate: 9/s, match: { path: ["/fine/*.json", "${path}", /$batch] } }]`);
    const { text } = await runCommandLine(["check-config", file]);
    expect(text.split("\n")[1]).toBe(
      `warning: limits[0].match.path[1]: "${path}" looks like a regular expression, but ${literal} is matched literally; only * stands for any characters`,
    );
    expect(text.split("\n")).toHaveLength(3);
  });

  it("--explain uses the prices of the route", async () => {
    const explain = (request: string) => runCommandLine(["check-config", neverMet, "--explain", `${request} app fine`]);
    expect((await explain("POST /jobs/new")).text).toContain(
      "app fine: 50 tokens, by the profile of the route /jobs/\n",
    );
    expect((await explain("POST /other")).text).toContain("app fine: 5 tokens\n");
  });

  it.each([[[]], [["a.yaml", "b.yaml"]], [["--colour", example]]])("rejects the arguments %j", async (args) => {
    expect(await runCommandLine(["check-config", ...args])).toMatchObject({ exitCode: 2, text: "" });
  });

  it("--explain prints the limits of a request, with buckets and tokens", async () => {
    const { text } = await runCommandLine(["check-config", limited, "--explain", "POST /login from 10.1.2.3 user ann"]);
    expect(text).toBe(
      [
        "app default: 5 tokens",
        "  per-user: 1 of 20, refills 10/s, bucket limit:per-user:ann",
        "  logins: not limited, the value is in allow",
        "  uploads: 5 of 800, refills 800/min, dry run, bucket limit:uploads:default:_2flogin",
        "",
      ].join("\n"),
    );
    const denied = await runCommandLine(["check-config", limited, "--explain", "POST /login from 192.0.2.9", "--json"]);
    expect(JSON.parse(denied.text).limits[1]).toMatchObject({ limit: "logins", result: "denied" });
    const none = await runCommandLine(["check-config", limited, "--explain", "GET / from 300.1.1.1"]);
    expect(none).toMatchObject({ exitCode: 2, complaint: expect.stringMatching(/"300.1.1.1" is not an address/) });
  });
});
