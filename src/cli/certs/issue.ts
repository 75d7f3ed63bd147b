/** Issues X.509 certificates (ECDSA P-256) for evaluation with the command openssl, which uses files in a private folder. */
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { isIP } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EXIT_REFUSED, Failure } from "../command.js";

export interface Issued {
  /** PEM. */
  cert: string;
  key: string;
}

export interface CertificateOptions {
  /** The common name; for a data plane its identity. */
  name: string;
  /** Host names and addresses. */
  hosts?: readonly string[];
  from?: Date;
  until: Date;
}

/** Clocks of other machines may be behind. */
const EARLIER_MS = 3_600_000;

const AUTHORITY = `basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash`;
const SERVER_AND_CLIENT = `basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid`;

export function createAuthority(options: Omit<CertificateOptions, "hosts">): Issued {
  return sign(options, AUTHORITY, () => ["-selfsign", "-keyfile", "key.pem"]);
}

/** A certificate for a server and for a client. */
export function issue(authority: Issued, options: CertificateOptions): Issued {
  const names = options.hosts?.map((host) => `${isIP(host) === 0 ? "DNS" : "IP"}:${host}`) ?? [];
  const extensions = names.length === 0 ? "" : `\nsubjectAltName = ${names.join(", ")}`;
  return sign(options, SERVER_AND_CLIENT + extensions, (write) => {
    write("ca.pem", authority.cert);
    write("ca-key.pem", authority.key);
    return ["-cert", "ca.pem", "-keyfile", "ca-key.pem"];
  });
}

/** @param signer writes the files of the signer, and returns the arguments that name them */
function sign(
  { name, from = new Date(Date.now() - EARLIER_MS), until }: CertificateOptions,
  extensions: string,
  signer: (write: (file: string, text: string) => void) => string[],
): Issued {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-certs-"));
  const write = (file: string, text: string) => writeFileSync(join(dir, file), text, { mode: 0o600 });
  try {
    write("openssl.cnf", configuration(extensions));
    write("issued", "");
    // Positive and not 0 at the start: a serial number in its shortest form.
    write("serial", `4${randomBytes(16).toString("hex").slice(1)}\n`);
    openssl(dir, [
      ...["req", "-new", "-config", "openssl.cnf", "-subj", `/CN=${name}`, "-out", "request.pem"],
      ...["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem"],
    ]);
    openssl(dir, [
      ...["ca", "-batch", "-notext", "-config", "openssl.cnf", "-in", "request.pem", "-out", "cert.pem"],
      ...["-startdate", opensslTime(from), "-enddate", opensslTime(until), ...signer(write)],
    ]);
    return { cert: readFileSync(join(dir, "cert.pem"), "utf8"), key: readFileSync(join(dir, "key.pem"), "utf8") };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

const configuration = (extensions: string) => `[req]
distinguished_name = subject
[subject]
[ca]
default_ca = authority
[authority]
database = issued
serial = serial
new_certs_dir = .
default_md = sha256
policy = policy
x509_extensions = extensions
[policy]
commonName = supplied
[extensions]
${extensions}
`;

/** YYYYMMDDhhmmssZ */
const opensslTime = (at: Date) => at.toISOString().replace(/\.\d+|[-:T]/g, "");

function openssl(cwd: string, args: string[]): void {
  const { error, status, stderr } = spawnSync("openssl", args, { cwd, encoding: "utf8" });
  if (error !== undefined) {
    throw new Failure(`the command openssl is needed to create certificates: ${error.message}`, EXIT_REFUSED);
  }
  if (status !== 0) throw new Failure(`openssl ${args[0]} failed: ${stderr.trim()}`, EXIT_REFUSED);
}
