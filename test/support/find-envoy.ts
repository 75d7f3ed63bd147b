/** Finds the Envoy binary for tests and benchmarks. */
import { accessSync, constants, readdirSync } from "node:fs";
import { join } from "node:path";
import { fromRoot } from "../../build/paths.js";

/** The one of TOLLGATE_ENVOY, or the one that build/ensure-envoy.sh installed. None with TOLLGATE_WITHOUT_ENVOY=1. */
export function findEnvoy(): string | undefined {
  if (process.env.TOLLGATE_WITHOUT_ENVOY === "1") return undefined;
  const named = process.env.TOLLGATE_ENVOY;
  if (named !== undefined && named !== "") return isProgram(named) ? named : undefined;
  return fetched().find(isProgram);
}

/** Throws without one. For code that runs only in tests that need Envoy. */
export function envoyBinary(): string {
  const found = findEnvoy();
  if (found === undefined) throw new Error("there is no Envoy: run build/ensure-envoy.sh, or set TOLLGATE_ENVOY");
  return found;
}

/** One of each supported minor version, as far as they are installed; with TOLLGATE_ENVOY, only that one. */
export function supportedEnvoys(): { version: string; binary: string }[] {
  const found = findEnvoy();
  if (found === undefined || process.env.TOLLGATE_ENVOY) {
    return found === undefined ? [] : [{ version: "of TOLLGATE_ENVOY", binary: found }];
  }
  const installed = fetched().filter(isProgram);
  return installed.flatMap((binary) => {
    const version = /\.cache\/envoy\/([0-9.]+)\//.exec(binary)?.[1] ?? "";
    return OLD.test(version) ? [] : [{ version, binary }];
  });
}

/** Installed to see the module refuse it. */
const OLD = /^1\.37\./;

/** Where the dynamic module is: the one that build/envoy-module.sh has built, or that of TOLLGATE_ENVOY_MODULE. */
export function moduleFolder(): string {
  return process.env.TOLLGATE_ENVOY_MODULE ?? fromRoot(".cache/envoy-module/release");
}

/** The newest first. */
function fetched(): string[] {
  const folder = fromRoot(".cache/envoy");
  try {
    const versions = readdirSync(folder).filter((name) => /^[0-9.]+$/.test(name));
    return versions
      .sort()
      .reverse()
      .map((version) => join(folder, version, "envoy/_bin/envoy"));
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
