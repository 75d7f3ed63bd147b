/** Memory that a Node process uses, without garbage. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { waitFor } from "../../test/support/wait-for.js";

/** Loaded into the measured process. On SIGUSR2 it collects garbage, then writes `process.memoryUsage()` to `<dir>/<pid>`. */
const probe = (dir: string) => `
const { writeFileSync, renameSync } = require("node:fs");
process.on("SIGUSR2", () => {
  require("node:v8").setFlagsFromString("--expose-gc");
  require("node:vm").runInNewContext("gc")();
  const file = ${JSON.stringify(dir)} + "/" + process.pid;
  writeFileSync(file + ".part", JSON.stringify(process.memoryUsage()));
  renameSync(file + ".part", file);
});
`;

export interface MemoryProbe {
  /** For the environment of the process, which passes it on to its workers. */
  readonly nodeOptions: string;
  /**
   * MB of heap and buffers in use. Resident memory also has garbage, and up to 33 MB of young generation, which depend on the time of
   * the last garbage collection.
   */
  usedMb(pid: number): Promise<number>;
  end(): void;
}

export function createMemoryProbe(): MemoryProbe {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-memory-"));
  const script = join(dir, "probe.cjs");
  writeFileSync(script, probe(dir));
  return {
    nodeOptions: `--require=${script}`,
    async usedMb(pid) {
      process.kill(pid, "SIGUSR2");
      const usage = await waitFor(
        "the process to write its memory",
        () => JSON.parse(readFileSync(join(dir, String(pid)), "utf8")) as NodeJS.MemoryUsage,
      );
      return (usage.heapUsed + usage.external) / 1e6;
    },
    end: () => rmSync(dir, { recursive: true }),
  };
}
