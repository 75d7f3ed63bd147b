/** Parts of the module's C code in programs of their own, with sanitizers: shared memory, and the frames of a pod. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { fromRoot } from "../../../../build/paths.js";
import { describeEnvoy } from "../../../support/envoy-binary.js";

const SEEDS = 8;
const CALLS = 20_000;
const HISTORIES = 500;

describeEnvoy("the C code of Envoy's dynamic module", () => {
  let dir: string;

  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), "tollgate-memory-"));
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  /** @param part a file of the module; the program is in test/support/module */
  function build(part: string, sanitizers: string): string {
    const program = join(dir, `${part}-${sanitizers}`);
    const module = fromRoot("src/planes/envoy/module");
    const luajit = fromRoot(".cache/luajit");
    const headers = join(luajit, readdirSync(luajit)[0]!, "src");
    const sources = [fromRoot(`test/support/module/${part}-history.c`), join(module, `${part}.c`)];
    const flags = [
      `-fsanitize=${sanitizers}`,
      "-fno-sanitize-recover=all",
      "-I",
      module,
      "-I",
      headers,
      "-pthread",
      "-lm",
    ];
    execFileSync("gcc", ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", program, ...sources, ...flags]);
    return program;
  }

  // Thread sanitizer needs a fixed layout of the address space.
  const run = (program: string, ...args: (string | number)[]) =>
    execFileSync("setarch", ["-R", program, ...args.map(String)], { encoding: "utf8", stdio: "pipe" });

  it("shares memory as a model does, and touches no byte that is not its own", () => {
    const program = build("memory", "address,undefined");
    for (let seed = 1; seed <= SEEDS; seed++) expect(run(program, seed, 1, CALLS)).toBe("passed\n");
  });

  it("shares memory without a data race, and loses no token", () => {
    const program = build("memory", "thread");
    for (let seed = 1; seed <= SEEDS; seed++) expect(run(program, seed, 3, CALLS)).toBe("passed\n");
  });

  it("sends a close frame only where a frame of the pod has ended, whatever the pod sends", () => {
    const program = build("frames", "address,undefined");
    for (let seed = 1; seed <= SEEDS; seed++) expect(run(program, seed, HISTORIES)).toBe("passed\n");
  });
});
