/** Certificates of a CA for tests, in a folder of their own. Removed after the test. */
import { chmodSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CertificateOptions, createAuthority, issue } from "../../src/cli/certs/issue.js";

const DAY_MS = 86_400_000;
const inDays = (days: number) => new Date(Date.now() + days * DAY_MS);

/** Paths of PEM files, and the contents. */
export interface TestCertificate {
  cert: string;
  key: string;
  pem: { cert: string; key: string };
}

export interface TestAuthority {
  /** The path of the CA certificate. */
  readonly ca: string;
  readonly pem: string;
  readonly dir: string;
  /** For localhost and 127.0.0.1, valid for a day, unless told otherwise. An existing one of the same name is replaced. */
  issue(file: string, options?: Partial<CertificateOptions>): TestCertificate;
  /** Already expired. */
  expired(file: string): TestCertificate;
  remove(): void;
}

export function createTestAuthority(name = "test CA"): TestAuthority {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-certs-"));
  // The workers of nginx run as another user; keys are for the owner only.
  chmodSync(dir, 0o755);
  const authority = createAuthority({ name, until: inDays(2) });
  const ca = join(dir, "ca.pem");
  writeFileSync(ca, authority.cert);

  function issued(file: string, options: Partial<CertificateOptions> = {}): TestCertificate {
    const pem = issue(authority, { name: file, hosts: ["localhost", "127.0.0.1"], until: inDays(1), ...options });
    const paths = { cert: join(dir, `${file}.pem`), key: join(dir, `${file}-key.pem`) };
    replace(paths.key, pem.key);
    replace(paths.cert, pem.cert);
    return { ...paths, pem };
  }

  return {
    ca,
    pem: authority.cert,
    dir,
    issue: issued,
    expired: (file) => issued(file, { from: inDays(-3), until: inDays(-1) }),
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
}

/** In one step, as tools for certificates do. */
export function replace(path: string, text: string): void {
  writeFileSync(`${path}.next`, text, { mode: path.endsWith("-key.pem") ? 0o600 : 0o644 });
  renameSync(`${path}.next`, path);
}
