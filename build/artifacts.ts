/** Everything the build makes, in memory: path below `dist/lua` → text. The same source gives the same bytes. */
import { createHash } from "node:crypto";
import type { CatalogEntry } from "../src/scripts/catalog.js";
import { coreBundle, envoyBundle, nginxBundle } from "./bundles.js";
import { flattenToLua } from "./lua.js";

export interface ManifestEntry {
  name: string;
  flags: CatalogEntry["flags"];
  bytes: number;
  /** Of the exact text: what EVALSHA calls the script by. */
  sha1: string;
}

/** The text that Redis gets for `src/scripts/<name>.ts`. */
export function redisScript(name: string, flags: CatalogEntry["flags"]): string {
  const run = camelCase(name);
  const { code } = flattenToLua({
    entry: `src/scripts/${name}.ts`,
    exports: [run],
    target: "5.1",
    ending: `return ${run}(redis, KEYS, ARGV)`,
    runsWhole: true,
  });
  // Redis reads the flags from the first line, so nothing may stand before it.
  const shebang = flags === "" ? "#!lua" : `#!lua flags=${flags}`;
  return `${shebang}\n-- tollgate ${name}, generated from src/scripts/${name}.ts: change it there\n${code}`;
}

export function buildArtifacts(catalog: Record<string, CatalogEntry>): Map<string, string> {
  const files = new Map<string, string>();
  const manifest: ManifestEntry[] = [];
  for (const [name, { flags }] of Object.entries(catalog)) {
    const text = redisScript(name, flags);
    const sha1 = createHash("sha1").update(text).digest("hex");
    files.set(`redis/${name}.lua`, text);
    manifest.push({ name, flags, bytes: Buffer.byteLength(text), sha1 });
  }
  files.set("redis/manifest.json", `${JSON.stringify(manifest, null, 2)}\n`);
  files.set("jit/core.lua", coreBundle());
  files.set("nginx/tollgate.lua", nginxBundle());
  files.set("envoy/tollgate.lua", envoyBundle());
  return files;
}

function camelCase(name: string): string {
  return name.replace(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
