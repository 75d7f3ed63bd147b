/** An empty project with packages as npm would install them. Their dependencies are links to those of the repository, so that no network is needed. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fromRoot } from "../../build/paths.js";

const TSC = fromRoot("node_modules/typescript/bin/tsc");

export function createProject() {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-package-"));
  const installed = (path: string) => join(folder, "node_modules", path);
  const run = (...args: string[]) => execFileSync(process.execPath, args, { cwd: folder, encoding: "utf8" });
  return {
    folder,
    installed,
    run,

    /** Packs the package in a folder of the repository, and unpacks it here. Returns its package.json. */
    install(name: string, source: string): Record<string, Record<string, string>> {
      mkdirSync(installed(name), { recursive: true });
      const pack = ["pack", "--ignore-scripts", "--silent", "--pack-destination", folder];
      const packed = execFileSync("npm", pack, { cwd: fromRoot(source), encoding: "utf8" }).trim();
      execFileSync("tar", ["-xzf", join(folder, packed), "-C", installed(name), "--strip-components=1"]);
      return JSON.parse(readFileSync(installed(`${name}/package.json`), "utf8"));
    },

    link(name: string): void {
      mkdirSync(dirname(installed(name)), { recursive: true });
      symlinkSync(fromRoot(`node_modules/${name}`), installed(name));
    },

    write(file: string, text: string): void {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      writeFileSync(join(folder, file), text);
    },

    /** Compiles files of the project in strict mode and writes their JavaScript next to them. Fails with what the compiler prints. */
    compile(...args: string[]): void {
      const strict = ["--strict", "--exactOptionalPropertyTypes", "--target", "es2022", "--types", "node"];
      try {
        run(TSC, ...strict, "--typeRoots", fromRoot("node_modules/@types"), ...args);
      } catch (error) {
        throw new Error(String((error as { stdout?: string }).stdout));
      }
    },

    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
