/** Reads and validates PEM files of certificates and keys, and follows their changes: an invalid file changes nothing. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Clock } from "../clock.js";
import { watchFile } from "../file-watch.js";
import type { Log } from "../log.js";
import { type Certificates, certificatesIn } from "./certificates.js";

/** Paths of PEM files. `cert` and `key` are set together. */
export interface TlsPaths {
  /** The own certificate, followed by intermediate certificates. */
  cert?: string | undefined;
  key?: string | undefined;
  /** CAs that may sign the certificates of the other side. */
  ca?: string | undefined;
}

/** The contents of the files. */
export interface TlsMaterial {
  cert?: string;
  key?: string;
  ca?: string;
}

export interface TlsProblem {
  option: keyof TlsPaths;
  reason: string;
}

export interface TlsFiles {
  /** The same object until a file changes. */
  current(): TlsMaterial;
  onChange(handler: () => void): void;
  close(): void;
}

export function readTlsFiles(paths: TlsPaths, now = Date.now()): { material: TlsMaterial; problems: TlsProblem[] } {
  const material: TlsMaterial = {};
  const problems: TlsProblem[] = [];
  const complain = (option: keyof TlsPaths, reason: string) => problems.push({ option, reason });
  for (const option of ["cert", "key", "ca"] as const) {
    const path = paths[option];
    if (path === undefined) continue;
    try {
      material[option] = readFileSync(path, "utf8");
    } catch (error) {
      complain(option, `cannot be read: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  const own = material.cert === undefined ? undefined : checkCertificates("cert", material.cert, now, complain);
  if (material.ca !== undefined) checkCertificates("ca", material.ca, now, complain);
  if (material.key !== undefined) {
    try {
      const key = createPrivateKey(material.key);
      if (own !== undefined && !own.checkPrivateKey(key)) complain("key", "does not belong to the certificate in cert");
    } catch {
      // The message could quote the file.
      complain("key", "is not a private key in PEM without a passphrase");
    }
  }
  return { material, problems };
}

type Complain = (option: keyof TlsPaths, reason: string) => void;

/** The first certificate. Only an own certificate must be valid now: an expired CA simply verifies nothing. */
function checkCertificates(
  option: "cert" | "ca",
  text: string,
  now: number,
  complain: Complain,
): X509Certificate | undefined {
  try {
    const [first] = certificatesIn(text);
    if (first === undefined) complain(option, "contains no certificate in PEM");
    else if (option === "cert" && Date.parse(first.validTo) <= now) complain(option, `expired on ${first.validTo}`);
    else if (option === "cert" && Date.parse(first.validFrom) > now)
      complain(option, `is valid from ${first.validFrom}`);
    return first;
  } catch {
    complain(option, "contains an invalid certificate");
    return undefined;
  }
}

export interface OpenTlsOptions {
  /** What the files are for, in log lines and errors: the path of the section in the configuration. */
  name: string;
  clock: Clock;
  log: Pick<Log, "info" | "warn">;
  /** Gets the files while they are open. */
  certificates?: Certificates | undefined;
}

/** Throws if a file is invalid. */
export function openTlsFiles(paths: TlsPaths, { name, clock, log, certificates }: OpenTlsOptions): TlsFiles {
  const first = readTlsFiles(paths);
  if (first.problems.length > 0) throw new Error(sentences(name, first.problems));
  let { material } = first;
  const handlers: (() => void)[] = [];

  /** Certificate and key are replaced one after the other: until both match, the old ones stay. */
  function reload(): void {
    const next = readTlsFiles(paths);
    if (next.problems.length > 0) {
      log.warn({ tls: name, problems: sentences(name, next.problems) }, "invalid TLS files: keeping the old ones");
      return;
    }
    const { cert, key, ca } = next.material;
    if (cert === material.cert && key === material.key && ca === material.ca) return;
    material = next.material;
    log.info({ tls: name, expires: expiryOf(material) }, "TLS files changed: new connections use them");
    for (const handler of handlers) handler();
  }

  const watched = [...new Set([paths.cert, paths.key, paths.ca].filter((path) => path !== undefined))];
  const stops = watched.map((path) => watchFile(path, clock, reload));
  const files: TlsFiles = {
    current: () => material,
    onChange: (handler) => void handlers.push(handler),
    close() {
      certificates?.remove(files);
      for (const stop of stops) stop();
    },
  };
  certificates?.add(name, files);
  return files;
}

/** When the own certificate expires. */
function expiryOf({ cert }: TlsMaterial): string | undefined {
  return cert === undefined ? undefined : new X509Certificate(cert).validTo;
}

function sentences(name: string, problems: readonly TlsProblem[]): string {
  return problems.map(({ option, reason }) => `${name}.${option}: ${reason}`).join("; ");
}
