/** The generated Redis scripts as the build left them: text, SHA1, flags and size of each. */
import { readFileSync } from "node:fs";
import { type CatalogEntry, catalog, type ScriptName } from "../scripts/catalog.js";

export interface ScriptFile {
  source: string;
  /** What EVALSHA calls it by. */
  sha1: string;
  flags: CatalogEntry["flags"];
  bytes: number;
}

interface ManifestEntry {
  name: string;
  flags: CatalogEntry["flags"];
  bytes: number;
  sha1: string;
}

/** The same place seen from `src/store` and from `dist/store`. */
const folder = new URL("../../dist/lua/redis/", import.meta.url);

/** All scripts of the catalog, in its order. Throws where one is missing: they are made by the build. */
export function loadScripts(): Map<ScriptName, ScriptFile> {
  const manifest = JSON.parse(readGenerated("manifest.json")) as ManifestEntry[];
  const scripts = new Map<ScriptName, ScriptFile>();
  for (const name of Object.keys(catalog) as ScriptName[]) {
    const entry = manifest.find((candidate) => candidate.name === name);
    if (entry === undefined) throw new Error(`The script "${name}" was not built yet: run \`make build\`.`);
    const { sha1, flags, bytes } = entry;
    scripts.set(name, { source: readGenerated(`${name}.lua`), sha1, flags, bytes });
  }
  return scripts;
}

function readGenerated(name: string): string {
  try {
    return readFileSync(new URL(name, folder), "utf8");
  } catch (cause) {
    throw new Error(`dist/lua/redis/${name} is missing: run \`make build\`.`, { cause });
  }
}
