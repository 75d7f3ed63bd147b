/** `tsx build/library/lock.ts FOLDER` writes package.json and lock file of the library there, with the versions of the repository's. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { fromRoot } from "../paths.js";
import { libraryManifest } from "./manifest.js";

interface Locked {
  version: string;
  dependencies?: Record<string, string>;
}

export function libraryLock() {
  const { packages } = JSON.parse(readFileSync(fromRoot("package-lock.json"), "utf8")) as {
    packages: Record<string, Locked>;
  };
  const { name, version, license, dependencies } = libraryManifest();
  const needed: Record<string, Locked> = {};
  /** As Node resolves it: in the folder of the package that needs it, or in one above. */
  const add = (dependency: string, from: string): void => {
    const path = `${from}node_modules/${dependency}`;
    const found = packages[path];
    if (found === undefined) add(dependency, from.slice(0, from.lastIndexOf("node_modules/")));
    else if (!(path in needed)) {
      needed[path] = found;
      for (const next of Object.keys(found.dependencies ?? {})) add(next, `${path}/`);
    }
  };
  for (const dependency of Object.keys(dependencies)) add(dependency, "");
  const root = { name, version, license, dependencies };
  return { name, version, lockfileVersion: 3, requires: true, packages: { "": root, ...needed } };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const folder = process.argv[2]!;
  mkdirSync(folder, { recursive: true });
  const lock = libraryLock();
  writeFileSync(`${folder}/package.json`, JSON.stringify(lock.packages[""]));
  writeFileSync(`${folder}/package-lock.json`, JSON.stringify(lock));
}
