/** The built program: its output, error messages and exit codes. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { fromRoot } from "../../build/paths.js";
import { exitCodes } from "../../src/cli/command.js";
import { catalog, type ScriptName } from "../../src/scripts/catalog.js";
import { loadLibrary } from "../../src/store/function-library.js";
import { functionName } from "../../src/store/function-names.js";
import { freePort } from "../support/ports.js";

const commandNames = [
  ...["serve", "check-config", "schema", "simulate", "status", "health", "apps", "why", "connections", "emergency"],
  ...["degradation", "reconcile", "reload", "config", "borrow", "repay", "price", "scripts", "demo"],
];

function tollgate(...args: string[]) {
  const { status, stdout, stderr } = spawnSync("node", [fromRoot("dist/cli/main.js"), ...args], { encoding: "utf8" });
  return { status, stdout, stderr };
}

describe("price", () => {
  test("prints the cost and its parts", () => {
    const { status, stdout, stderr } = tollgate("price", "--method", "PUT", "--bytes", "1048576");
    expect(stdout).toBe(
      [
        "21 tokens for PUT with 1048576 bytes (profile standard)",
        "  base       5",
        "  bandwidth  16 = ceil(1048576 / 65536) × 1",
        "  sum        21",
        "",
      ].join("\n"),
    );
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  });

  test("shows that a cost was clamped", () => {
    const { stdout } = tollgate("price", "--method", "PUT", "--bytes", "1073741824", "--profile", "bandwidth");
    expect(stdout).toContain("1000000 tokens");
    expect(stdout).toContain("1048577, clamped to 1000000");
  });

  test.each([
    ["GET", "1024", "standard", 2],
    ["PUT", "1048576", "standard", 21],
    ["GET", "0", "standard", 1],
    ["PUT", "1073741824", "standard", 16389],
    ["PUT", "1073741824", "bandwidth", 1000000],
  ])("%s of %s bytes costs, by the profile %s, %i tokens", (method, bytes, profile, cost) => {
    const { stdout } = tollgate("price", "--method", method, "--bytes", bytes, "--profile", profile, "--json");
    expect(JSON.parse(stdout)).toMatchObject({ method, bytes: Number(bytes), profile, cost });
  });

  test.each([
    ["--bytes", ["--method", "GET", "--bytes=-1"]],
    ["--bytes", ["--method", "GET", "--bytes", "-1"]],
    ["--bytes", ["--method", "GET", "--bytes", "1.5"]],
    ["--bytes", ["--method", "GET", "--bytes", "NaN"]],
    ["--bytes", ["--method", "GET", "--bytes", "1e3"]],
    ["--bytes", ["--method", "GET", "--bytes", "9007199254740993"]],
    ["--bytes", ["--method", "GET", "--bytes", ""]],
    ["--bytes", ["--method", "GET"]],
    ["--method", ["--bytes", "1"]],
    ["--method", ["--method", "put", "--bytes", "1"]],
    ["--method", ["--method", "P T", "--bytes", "1"]],
    ["--profile", ["--method", "GET", "--bytes", "1", "--profile", "gold"]],
    ["--colour", ["--method", "GET", "--bytes", "1", "--colour", "red"]],
    ["extra", ["extra"]],
  ])("rejects an invalid %s with exit code 2 and an empty stdout: %j", (name, args) => {
    const { status, stdout, stderr } = tollgate("price", ...args);
    expect(stderr).toContain(name);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  });
});

describe("scripts", () => {
  test("lists the functions of the library with their flags", () => {
    const { status, stdout } = tollgate("scripts");
    expect(status).toBe(0);
    const { name, source } = loadLibrary();
    expect(stdout).toContain(`library ${name}, ${Buffer.byteLength(source)} bytes\n`);
    for (const [script, { flags }] of Object.entries(catalog)) {
      expect(stdout).toMatch(new RegExp(`^${functionName(name, script as ScriptName)} +${flags || "-"}$`, "m"));
    }
  });

  test("lists them for machines", () => {
    const listed = JSON.parse(tollgate("scripts", "--json").stdout) as Record<string, unknown>;
    expect(listed).toMatchObject({ library: loadLibrary().name, bytes: expect.any(Number) });
    expect(listed.functions).toHaveLength(Object.keys(catalog).length);
  });
});

describe("help", () => {
  test.each([["price"], ["scripts"], ["demo"]])("of %s has an example that works", (command) => {
    const { status, stdout } = tollgate(command, "--help");
    expect(status).toBe(0);
    const example = /Examples?:\n {2}tollgate (.*)\n/.exec(stdout)?.[1] ?? "";
    expect(tollgate(...example.split(" ")).status).toBe(0);
  });

  test.each([["--help"], ["-h"], ["help"]])("%s names every command and every exit code", (option) => {
    const { status, stdout } = tollgate(option);
    expect(status).toBe(0);
    for (const command of commandNames) expect(stdout).toContain(`  ${command} `);
    for (const [code, meaning] of exitCodes) expect(stdout).toContain(`  ${code}  ${meaning}\n`);
  });

  test("--version is that of the package", () => {
    const { version } = JSON.parse(readFileSync(fromRoot("package.json"), "utf8")) as { version: string };
    expect(tollgate("--version").stdout).toBe(`${version}\n`);
  });

  test.each([[[]], [["frobnicate"]]])("a call without a known command ends with exit code 2: %j", (args) => {
    const { status, stdout, stderr } = tollgate(...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toContain("command");
  });
});

describe("an unreachable service", () => {
  test("ends every operator command with exit code 3, nothing on stdout and one line on stderr", async () => {
    const place = `127.0.0.1:${await freePort()}`;
    for (const command of ["status", "emergency on", "why video-service"]) {
      const { status, stdout, stderr } = tollgate(...command.split(" "), "--url", `http://${place}`);
      expect({ status, stdout, stderr }).toEqual({
        status: 3,
        stdout: "",
        stderr: `tollgate: connection to ${place} refused; is tollgate serve running, is --url correct?\n`,
      });
    }
  });
});

test("a closed output pipe is not a failure", () => {
  const command = `"${process.execPath}" "${fromRoot("dist/cli/main.js")}" schema | head -c 1`;
  const { status, stdout, stderr } = spawnSync("bash", ["-o", "pipefail", "-c", command], { encoding: "utf8" });
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: "{", stderr: "" });
});

test("demo --json has the prices as JSON", () => {
  const prices = JSON.parse(tollgate("demo", "--json").stdout) as { profile: string; method: string; bytes: number }[];
  expect(prices).toContainEqual({ profile: "standard", method: "PUT", bytes: 1024 ** 2, cost: 21 });
});

test("demo greets and prints the prices of all profiles", () => {
  const { status, stdout } = tollgate("demo");
  expect(status).toBe(0);
  expect(stdout).toContain("Welcome to tollgate");
  expect(stdout).toMatch(/standard PUT +5 +6 +6 +21 +16,389\n/);
  expect(stdout).toMatch(/bandwidth PUT .* 1,000,000\n/);
  expect(stdout).toMatch(/iops GET +1 /);
});
