/** Options that `tollgate render` has for nginx and Envoy, and writing of the rendered files. */
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Config } from "../../config/schema.js";
import type { CertificateFiles, Rendered } from "../../render/common.js";
import { configOrThrow } from "../check-config.js";
import { flagOption, type readOptions, textOption, UsageError } from "../command.js";
import { readWhole } from "../numbers.js";
import { resolveUpstreams } from "./resolve.js";

export const commonOptions = {
  config: textOption,
  out: textOption,
  service: { type: "string", multiple: true },
  path: textOption,
  resolve: flagOption,
  node: textOption,
  workers: textOption,
  "tls-certificate": textOption,
  "tls-key": textOption,
  "service-ca": textOption,
  "service-name": textOption,
  "client-certificate": textOption,
  "client-key": textOption,
} as const;

type CommonValues = ReturnType<typeof readOptions<typeof commonOptions>>;

/** Throws UsageError. */
export function readCommon(values: CommonValues) {
  const { node, workers, service = [] } = values;
  if (values.out === undefined) throw new UsageError("--out is missing");
  if (node !== undefined && !/^[A-Za-z0-9._:-]{1,100}$/.test(node)) {
    throw new UsageError("--node must be 1 to 100 of A–Z a–z 0–9 . _ : -");
  }
  const out = resolve(values.out);
  return {
    out,
    options: {
      path: resolve(values.path ?? out),
      services: service,
      node,
      workers: readOptional("--workers", workers, 999),
      tls: readPair(values, "tls-certificate", "tls-key"),
      serviceTls: {
        ca: values["service-ca"],
        name: values["service-name"],
        client: readPair(values, "client-certificate", "client-key"),
      },
    },
  };
}

/** Renders the configuration and writes the files. Throws an error that lists all problems. */
export function renderTo(
  out: string,
  values: CommonValues,
  render: (config: Config) => Rendered,
): string | Promise<string> {
  const config = configOrThrow(values.config);
  if (!values.resolve) return writeFiles(out, render(config));
  return resolveUpstreams(config).then(({ config: resolved, file }) => {
    const { files, warnings } = render(resolved);
    return writeFiles(out, { files: [...files, file], warnings });
  });
}

/** Two files that belong together, or none. */
function readPair(
  values: CommonValues,
  first: "tls-certificate" | "client-certificate",
  second: "tls-key" | "client-key",
): CertificateFiles | undefined {
  const { [first]: certificate, [second]: key } = values;
  if (certificate === undefined && key === undefined) return undefined;
  if (certificate === undefined || key === undefined)
    throw new UsageError(`--${first} and --${second} must be used together`);
  return { certificate: resolve(certificate), key: resolve(key) };
}

/** An integer from 1 to `most`, if given. */
export function readOptional(option: string, text: string | undefined, most: number): number | undefined {
  return text === undefined ? undefined : readWhole(option, text, { least: 1, most });
}

/** The path is the same from `src/cli/render` and from `dist/cli/render`. */
export function readBundle(proxy: "nginx" | "envoy"): string {
  const path = `dist/lua/${proxy}/tollgate.lua`;
  try {
    return readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");
  } catch (cause) {
    throw new Error(`${path} is missing: run \`make build\`.`, { cause });
  }
}

/** Returns the list of written files and warnings. */
function writeFiles(out: string, { files, warnings }: Rendered): string {
  mkdirSync(out, { recursive: true });
  for (const { name, text, secret } of files) replaceFile(join(out, name), text, secret ? 0o600 : 0o644);
  const lines = [...files.map(({ name }) => join(out, name)), ...warnings.map((each) => `note: ${each}`)];
  return `${lines.join("\n")}\n`;
}

/** Replaces the file atomically, because a proxy may reload meanwhile. `mode` overrides the umask. */
export function replaceFile(path: string, text: string, mode?: number): void {
  const next = `${path}.${process.pid}`;
  writeFileSync(next, text, { mode });
  if (mode !== undefined) chmodSync(next, mode);
  renameSync(next, path);
}
