/** The library of Envoy's dynamic module: reproducible and stripped, and it also runs on arm64. */
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fromRoot } from "../../build/paths.js";
import { needs } from "../../build/test-summary.js";
import { command as renderCommand } from "../../src/cli/render.js";
import { describeWith } from "./support/needs.js";

/** The C library of Envoy's images; docs/ENVOY.md names it. */
const NEWEST_GLIBC = 35;

const library = (cache: string, variant: string) => join(cache, "envoy-module", variant, "libtollgate.so");
const build = (root: string, cache: string, variant: string) =>
  execFileSync(join(root, "build/envoy-module.sh"), [variant], {
    env: { ...process.env, TOLLGATE_MODULE_CACHE: cache },
    stdio: ["ignore", "ignore", "inherit"],
  });
const readelf = (...args: string[]) => execFileSync("readelf", args, { encoding: "utf8", maxBuffer: 1e8 });

describeWith(["envoy", "time"], "the library of Envoy's module", () => {
  let dir: string;
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), "tollgate-module-"));
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  it("has the same bytes when it is built again, from another folder", { timeout: 600_000 }, () => {
    build(fromRoot("."), fromRoot(".cache"), "release");
    for (const path of ["build", "src/planes/envoy/module"]) {
      cpSync(fromRoot(path), join(dir, "copy", path), { recursive: true });
    }
    build(join(dir, "copy"), join(dir, "cache"), "release");
    const [first, again] = [library(fromRoot(".cache"), "release"), library(join(dir, "cache"), "release")];
    expect(readFileSync(again).equals(readFileSync(first))).toBe(true);
  });

  it("has no symbols besides those of its interface, no debug information, and needs no recent C library", () => {
    const file = library(fromRoot(".cache"), "release");
    expect(readelf("--sections", "--wide", file)).not.toMatch(/\.(symtab|debug_\w+|note\.gnu\.build-id)\b/);
    const symbols = readelf("--dyn-syms", "--wide", file).split("\n");
    const exported = symbols.filter((line) => /GLOBAL +DEFAULT +\d/.test(line)).map((line) => line.split(/ +/).at(-1));
    expect(exported.length).toBeGreaterThan(20);
    expect(exported.filter((name) => !/^(envoy_dynamic_module_on_|tollgate_)/.test(String(name)))).toEqual([]);
    const versions = [...readelf("--version-info", file).matchAll(/GLIBC_2\.(\d+)/g)].map(([, minor]) => Number(minor));
    expect(Math.max(...versions)).toBeLessThanOrEqual(NEWEST_GLIBC);
  });
});

/** build/ensure-arm64.sh installs it. */
const envoy = fromRoot(".cache/envoy-arm64/1.40.0/envoy/_bin/envoy");
const canRun =
  process.env.TOLLGATE_DEPLOY_FILES_ONLY !== "1" &&
  existsSync(envoy) &&
  spawnSync("qemu-aarch64", ["--version"]).status === 0;
const describeArm64 = canRun ? describe : describe.skip;

describeArm64(`the library for arm64${canRun ? "" : ` ${needs("build/ensure-arm64.sh")}`}`, () => {
  it("is loaded by an Envoy for arm64, with its script", { timeout: 600_000 }, () => {
    const dir = mkdtempSync(join(tmpdir(), "tollgate-arm64-"));
    build(fromRoot("."), fromRoot(".cache"), "arm64");
    writeFileSync(
      join(dir, "tollgate.yaml"),
      `control: { plane_token: a-token-of-data-planes }
upstreams: { backend: { targets: ["127.0.0.1:1"] } }
routes: [{ path: /, upstream: backend }]
`,
    );
    renderCommand.run(["envoy", "--config", join(dir, "tollgate.yaml"), "--out", dir]);
    const { stdout, stderr } = spawnSync(
      "qemu-aarch64",
      ["-L", "/usr/aarch64-linux-gnu", envoy, "--mode", "validate", "-c", join(dir, "envoy.yaml")],
      {
        env: { ...process.env, ENVOY_DYNAMIC_MODULES_SEARCH_PATH: fromRoot(".cache/envoy-module/arm64") },
        encoding: "utf8",
      },
    );
    expect(stdout + stderr).toContain("OK");
    rmSync(dir, { recursive: true });
  });
});
