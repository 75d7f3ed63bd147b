/** Checks the certificates and token keys in files that a configuration names. Separate from the schema: `render` runs on other machines. */
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { parseKeySet } from "../shared/key-set.js";
import { readTlsFiles, type TlsPaths } from "../shared/tls/tls-files.js";
import type { Loaded } from "./load.js";
import { type Problem, problemAt } from "./problem.js";
import type { Config } from "./schema.js";

/** The sections with certificates, by path. */
function tlsSections(config: Config): [path: string[], files: TlsPaths][] {
  const { tls, store_tls, control, envoy, upstreams } = config;
  const listed: [string[], TlsPaths | undefined][] = [
    [["tls"], tls],
    [["store_tls"], store_tls],
    [["control", "tls"], control.tls],
    [["envoy", "tls"], envoy.tls],
    ...Object.entries(upstreams).map(([name, { tls }]): [string[], TlsPaths | undefined] => [
      ["upstreams", name, "tls"],
      tls,
    ]),
  ];
  return listed.filter((entry): entry is [string[], TlsPaths] => entry[1] !== undefined);
}

/** Of sections that are the same in `before` the files are not checked: an expired certificate must not prevent other changes. */
export function tlsFileProblems(config: Config, before?: Config): Problem[] {
  const known = before === undefined ? [] : tlsSections(before);
  return tlsSections(config).flatMap(([path, files]) => {
    if (known.some((entry) => isDeepStrictEqual(entry, [path, files]))) return [];
    return readTlsFiles(files).problems.map(({ option, reason }) => {
      const { path: shown, value } = problemAt([...path, option], config, reason);
      return { path: shown, value, reason };
    });
  });
}

/** Later changes of the file are the concern of who reads it: the last valid keys stay in use. */
function keyFileProblems(config: Config): Problem[] {
  const file = config.identity.jwt?.jwks_file;
  if (file === undefined) return [];
  try {
    parseKeySet(readFileSync(file, "utf8"));
    return [];
  } catch (error) {
    const reason = `is not a readable JSON Web Key Set: ${(error as Error).message}`;
    const { path, value } = problemAt(["identity", "jwt", "jwks_file"], config, reason);
    return [{ path, value, reason }];
  }
}

/** The same with problems of the files. */
export function withFileChecks(loaded: Loaded): Loaded {
  const { config } = loaded;
  const problems = config === undefined ? [] : [...tlsFileProblems(config), ...keyFileProblems(config)];
  return problems.length === 0 ? loaded : { config: undefined, problems };
}
