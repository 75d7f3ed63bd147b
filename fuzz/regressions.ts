/** Inputs that once failed. The test suite replays them. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fromRoot } from "../build/paths.js";

const folderOf = (target: string) => fromRoot(`fuzz/regressions/${target}`);

/** Returns the path of the file, relative to the project. */
export function saveRegression(target: string, input: Uint8Array): string {
  const name = createHash("sha256").update(input).digest("hex").slice(0, 16);
  mkdirSync(folderOf(target), { recursive: true });
  writeFileSync(join(folderOf(target), name), input);
  return `fuzz/regressions/${target}/${name}`;
}

export function regressionsOf(target: string): { name: string; input: Buffer }[] {
  const folder = folderOf(target);
  const names = existsSync(folder) ? readdirSync(folder).sort() : [];
  return names.map((name) => ({ name, input: readFileSync(join(folder, name)) }));
}
