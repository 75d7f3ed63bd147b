/** `tollgate certs`: creates a CA and certificates for evaluation. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { isIP } from "node:net";
import { join } from "node:path";
import { quoted } from "../config/problem.js";
import { isIdentifier, wholeNumber } from "../core/platform.js";
import { createAuthority, type Issued, issue } from "./certs/issue.js";
import { type Command, EXIT_REFUSED, expectWords, Failure, flagOption, readArguments, UsageError } from "./command.js";
import { printed } from "./printing.js";

const DAY_MS = 86_400_000;
const MOST_DAYS = 825;
const CA_DAYS = 3_650;
/** Of a common name, in X.509. */
const MAX_NAME = 64;
const CA_NAME = "Tollgate evaluation CA";
const ALWAYS = ["localhost", "127.0.0.1", "::1"];
const HOST = /^(\*\.)?([A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?$/;

const help = `Usage: tollgate certs DIR [--host NAME]... [--plane NAME]... [--days N] [--json]

Creates a CA and certificates in DIR, to try TLS. For production use the CA of your organisation: the key of this one is a
file in DIR. Needs the command openssl.

  DIR/ca.pem, DIR/ca-key.pem          the CA. An existing one is kept and used
  DIR/service.pem, service-key.pem    for the listeners of services, valid for ${ALWAYS.join(", ")} and each --host
  DIR/NAME.pem, NAME-key.pem          for each data plane given by --plane; NAME is its identity in control.planes

  --host NAME   a host name or address of the services; may be repeated
  --plane NAME  a data plane, at most ${MAX_NAME} characters; may be repeated
  --days N      how long certificates are valid, 1 to ${MOST_DAYS} (default: 90); the CA for ten years
  --json        machine-readable

A repeated call replaces the certificates, for example before they expire; running services use the new ones.

Example:
  tollgate certs ./certs --host tollgate.internal --plane edge-1
`;

export const command: Command = {
  help,
  run(args) {
    const { values, words } = readArguments(args, {
      host: { type: "string", multiple: true, default: [] },
      plane: { type: "string", multiple: true, default: [] },
      days: { type: "string", default: "90" },
      json: flagOption,
    });
    const dir = expectWords(words, ["DIR"]).required("DIR");
    for (const host of values.host) {
      if (isIP(host) === 0 && !HOST.test(host))
        throw new UsageError(`--host: ${quoted(host)} is not a host or address`);
    }
    for (const plane of values.plane) checkPlane(plane);
    const days = wholeNumber(values.days);
    if (!(days >= 1 && days <= MOST_DAYS)) {
      throw new UsageError(`--days: ${quoted(values.days)} is not a number from 1 to ${MOST_DAYS}`);
    }
    const until = new Date(Date.now() + days * DAY_MS);
    const isNew = !existsSync(join(dir, "ca.pem"));
    const authority = isNew
      ? createAuthority({ name: CA_NAME, until: new Date(Date.now() + CA_DAYS * DAY_MS) })
      : readAuthority(dir);
    const service = { name: "service", hosts: [...new Set([...ALWAYS, ...values.host])], until };
    const planes = values.plane.map((name) => ({ name, until }));
    const issued = [service, ...planes].map((options) => ({ name: options.name, files: issue(authority, options) }));
    mkdirSync(dir, { recursive: true });
    if (isNew) write(dir, "ca", authority);
    for (const { name, files } of issued) write(dir, name, files);
    const names = issued.map(({ name }) => name);
    if (values.json) {
      const files = names.map((name) => ({ name, cert: join(dir, `${name}.pem`), key: join(dir, `${name}-key.pem`) }));
      const ca = { cert: join(dir, "ca.pem"), key: join(dir, "ca-key.pem"), created: isNew };
      return `${JSON.stringify({ ca, certificates: files, valid_until: until.toISOString() })}\n`;
    }
    return printed([
      `${isNew ? "created" : "kept"} the CA in ${join(dir, "ca.pem")}`,
      ...names.map((name) => `wrote ${join(dir, `${name}.pem`)} and ${join(dir, `${name}-key.pem`)}`),
      `certificates are valid until ${until.toISOString().slice(0, 10)}`,
    ]);
  },
};

/** A plane must not have a name whose files would replace the files of the CA or the service. */
function checkPlane(name: string): void {
  if (!isIdentifier(name)) throw new UsageError(`--plane: ${quoted(name)} must be 1 to 128 of A–Z a–z 0–9 . _ : -`);
  if (name.length > MAX_NAME) {
    throw new UsageError(`--plane: ${quoted(name)} has more than ${MAX_NAME} characters, the limit of common names`);
  }
  if (["ca", "service"].includes(name) || name.endsWith("-key")) {
    throw new UsageError(`--plane: ${quoted(name)} is the name of another file`);
  }
}

function readAuthority(dir: string): Issued {
  const [path, keyPath] = [join(dir, "ca.pem"), join(dir, "ca-key.pem")];
  if (!existsSync(keyPath))
    throw new Failure(`${keyPath} is missing: without it the CA in ${path} cannot sign`, EXIT_REFUSED);
  const [cert, key] = [readFileSync(path, "utf8"), readFileSync(keyPath, "utf8")];
  try {
    const parsed = new X509Certificate(cert);
    if (parsed.ca && parsed.checkPrivateKey(createPrivateKey(key))) return { cert, key };
  } catch {
    // Reported below.
  }
  throw new Failure(`${path} and ${keyPath} are not a CA and its key`, EXIT_REFUSED);
}

/** Key first, each in one step: a service that reads them in between keeps its old ones. */
function write(dir: string, name: string, { cert, key }: Issued): void {
  replace(join(dir, `${name}-key.pem`), key, 0o600);
  replace(join(dir, `${name}.pem`), cert, 0o644);
}

function replace(path: string, text: string, mode: number): void {
  writeFileSync(`${path}.next`, text, { mode });
  renameSync(`${path}.next`, path);
}
