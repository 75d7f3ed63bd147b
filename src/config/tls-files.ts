/** Checks the certificate files that a configuration names. Separate from the schema: `render` runs on other machines. */
import { isDeepStrictEqual } from "node:util";
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

/** The same with problems of the certificate files. */
export function withFileChecks(loaded: Loaded): Loaded {
  const problems = loaded.config === undefined ? [] : tlsFileProblems(loaded.config);
  return problems.length === 0 ? loaded : { config: undefined, problems };
}
