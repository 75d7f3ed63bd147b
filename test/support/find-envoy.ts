/** Where the Envoy is that tests and bench run. */
import { accessSync, constants, readdirSync } from "node:fs";
import { join } from "node:path";
import { fromRoot } from "../../build/paths.js";

/** What build/ensure-envoy.sh has fetched, or what TOLLGATE_ENVOY names; nothing with TOLLGATE_WITHOUT_ENVOY=1. */
export function findEnvoy(): string | undefined {
  if (process.env.TOLLGATE_WITHOUT_ENVOY === "1") return undefined;
  const named = process.env.TOLLGATE_ENVOY;
  if (named !== undefined && named !== "") return isProgram(named) ? named : undefined;
  return fetched().find(isProgram);
}

/** Throws where there is none: for what is only reached by tests that need one. */
export function envoyBinary(): string {
  const found = findEnvoy();
  if (found === undefined) throw new Error("there is no Envoy: run build/ensure-envoy.sh, or set TOLLGATE_ENVOY");
  return found;
}

function fetched(): string[] {
  const folder = fromRoot(".cache/envoy");
  try {
    const versions = readdirSync(folder).filter((name) => /^[0-9.]+$/.test(name));
    return versions.sort().map((version) => join(folder, version, "envoy/_bin/envoy"));
  } catch {
    return [];
  }
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
