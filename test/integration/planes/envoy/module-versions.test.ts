/** Which Envoys the dynamic module supports: it refuses others when Envoy starts, and supported ones have all that it calls. */
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fromRoot } from "../../../../build/paths.js";
import { command as renderCommand } from "../../../../src/cli/render.js";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { envoyBinary, moduleFolder } from "../../../support/find-envoy.js";

const SUPPORTED = ["1.38", "1.39", "1.40"];
const OLD = "1.37.0";
const REFUSAL = "this version of Envoy is not supported. libtollgate.so supports Envoy 1.38, 1.39, 1.40";
const source = (name: string) => readFileSync(fromRoot(`src/planes/envoy/module/${name}`), "utf8");
/** `build/ensure-envoy.sh all` installs them. */
const installed = (version: string) => fromRoot(`.cache/envoy/${version}/envoy/_bin/envoy`);
const binaries = [...readFileSync(fromRoot("build/ensure-envoy.sh"), "utf8").matchAll(/\b1\.\d\d\.\d+\b/g)]
  .map(([version]) => version)
  .filter((version) => version !== OLD && existsSync(installed(version)));

/** What a binary exports or needs. */
function symbols(file: string, kind: "--defined-only" | "--undefined-only"): string[] {
  const text = execFileSync("nm", ["-D", kind, file], { encoding: "utf8", maxBuffer: 1e9 });
  return text.split("\n").flatMap((line) => line.trim().split(" ").at(-1)?.split("@")[0] ?? []);
}

/** As version.c computes it. */
function fingerprint(names: readonly string[]): string {
  let sum = 0n;
  for (const name of names.filter((each) => each.startsWith("envoy_dynamic_module_callback_http_"))) {
    let hash = 14695981039346656037n;
    for (const byte of Buffer.from(name)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 1099511628211n);
    sum = BigInt.asUintN(64, sum + hash);
  }
  return `0x${sum.toString(16).padStart(16, "0")}`;
}

const called = new Set(
  [...source("abi.h").matchAll(/CALLBACK\((\w+)\)\(/g)].map(([, name]) => `envoy_dynamic_module_callback_${name}`),
);

describeEnvoy("the dynamic module's Envoy versions", () => {
  let dir: string;
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), "tollgate-versions-"));
    const yaml = `control: { plane_token: a-token-of-data-planes }
upstreams: { backend: { targets: ["127.0.0.1:1"] } }
routes: [{ path: /, upstream: backend }]
`;
    writeFileSync(join(dir, "tollgate.yaml"), yaml);
    renderCommand.run(["envoy", "--mode", "module", "--config", join(dir, "tollgate.yaml"), "--out", dir]);
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  function validate(binary: string, file = join(dir, "envoy.yaml")) {
    const env = { ...process.env, ENVOY_DYNAMIC_MODULES_SEARCH_PATH: moduleFolder() };
    const { status, stdout, stderr } = spawnSync(binary, ["--mode", "validate", "-c", file], {
      env,
      encoding: "utf8",
    });
    return { status, output: stdout + stderr };
  }

  it("are named by the message of the module", () => {
    const listed = [...source("version.c").matchAll(/\{"(\d\.\d+)", 0x/g)].map(([, version]) => version);
    expect(listed).toEqual(SUPPORTED);
    expect(binaries.length).toBeGreaterThan(0);
  });

  describe.each(binaries)("Envoy %s", (version) => {
    it("exports every function that the module calls", () => {
      const exported = new Set(symbols(installed(version), "--defined-only"));
      const needed = symbols(join(moduleFolder(), "libtollgate.so"), "--undefined-only").filter((name) =>
        name.startsWith("envoy_"),
      );
      expect(needed.length).toBeGreaterThan(10);
      expect([...needed, ...called].filter((name) => !exported.has(name))).toEqual([]);
    });

    it("has the functions by which the module recognises it, and is accepted", () => {
      const minor = version.split(".").slice(0, 2).join(".");
      expect(source("version.c")).toContain(
        `{"${minor}", ${fingerprint(symbols(installed(version), "--defined-only"))}}`,
      );
      const { status, output } = validate(installed(version));
      expect(output).toContain("OK");
      expect(status).toBe(0);
    });
  });

  it("are checked when Envoy starts: one with another function is refused", () => {
    // A function that the module does not call gets another name.
    const unused = symbols(envoyBinary(), "--defined-only").find(
      (name) => name.startsWith("envoy_dynamic_module_callback_http_") && !called.has(name),
    );
    const changed = readFileSync(envoyBinary());
    const text = `${String(unused)}\0`;
    for (let at = changed.indexOf(text); at >= 0; at = changed.indexOf(text, at + 1)) {
      changed.write("X", at + text.length - 2, "latin1");
    }
    const file = join(dir, "envoy");
    writeFileSync(file, changed);
    chmodSync(file, 0o755);
    const { status, output } = validate(file);
    expect(output).toContain(REFUSAL);
    expect(status).not.toBe(0);
  });

  const old = existsSync(installed(OLD)) ? [OLD] : [];
  it.each(old)("are checked when Envoy starts: %s is refused", (version) => {
    // It does not know this field either, and says so first.
    const file = join(dir, "old.yaml");
    writeFileSync(
      file,
      readFileSync(join(dir, "envoy.yaml"), "utf8").replaceAll(', metrics_namespace: "tollgate"', ""),
    );
    const { status, output } = validate(installed(version), file);
    expect(output).toContain(REFUSAL);
    expect(status).not.toBe(0);
  });
});
