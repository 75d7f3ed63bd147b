/** What rendering for any proxy shares: the generated script, options that all have, and files that are replaced in one step. */
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Rendered } from "../render/files.js";
import { UsageError } from "./command.js";

/** The folder of `--out`, once it is known; complains where it was not given. */
export type Place = (out: string | undefined) => string;

export function outFolder(out: string | undefined): string {
  if (out === undefined) throw new UsageError("--out is missing");
  return resolve(out);
}

export function tlsOf(values: { "tls-certificate"?: string | undefined; "tls-key"?: string | undefined }) {
  const { "tls-certificate": certificate, "tls-key": key } = values;
  if ((certificate === undefined) !== (key === undefined)) {
    throw new UsageError("--tls-certificate and --tls-key go together");
  }
  return certificate === undefined || key === undefined ? undefined : { certificate, key };
}

export function checkNode(node: string | undefined): void {
  if (node !== undefined && !/^[A-Za-z0-9._:-]{1,100}$/.test(node)) {
    throw new UsageError("--node must be 1 to 100 of A–Z a–z 0–9 . _ : -");
  }
}

/** The same place seen from `src/cli` and from `dist/cli`. */
export function readBundle(proxy: "nginx" | "envoy"): string {
  const path = `dist/lua/${proxy}/tollgate.lua`;
  try {
    return readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
  } catch (cause) {
    throw new Error(`${path} is missing: run \`make build\`.`, { cause });
  }
}

/** Answers what was written, and what there is to know about it. */
export function writeFiles(out: string, { files, warnings }: Rendered): string {
  mkdirSync(out, { recursive: true });
  for (const { name, text, secret } of files) replace(join(out, name), text, secret);
  const lines = [...files.map(({ name }) => join(out, name)), ...warnings.map((each) => `note: ${each}`)];
  return `${lines.join("\n")}\n`;
}

/** In one step: a proxy that reloads meanwhile reads the old file or the new one. */
function replace(path: string, text: string, secret: boolean): void {
  const next = `${path}.${process.pid}`;
  writeFileSync(next, text, { mode: secret ? 0o600 : 0o644 });
  chmodSync(next, secret ? 0o600 : 0o644);
  renameSync(next, path);
}
