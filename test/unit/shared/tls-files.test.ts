/** Certificate files: what is rejected and why, and that an invalid change keeps the old files. */
import { writeFileSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { openTlsFiles, readTlsFiles } from "../../../src/shared/tls/tls-files.js";
import { createTestAuthority, replace, type TestAuthority } from "../../support/certificates.js";
import { waitFor } from "../../support/wait-for.js";

let authority: TestAuthority;
afterEach(() => authority.remove());

const problemsOf = (paths: Parameters<typeof readTlsFiles>[0]) =>
  readTlsFiles(paths).problems.map(({ option, reason }) => `${option}: ${reason}`);

describe("certificate files", () => {
  it("are rejected with the option and the reason if they are missing, broken, expired or do not belong together", () => {
    authority = createTestAuthority();
    const good = authority.issue("good");
    const other = authority.issue("other");
    const expired = authority.expired("expired");
    const later = authority.issue("later", { from: new Date(Date.now() + 3_600_000) });
    const text = `${authority.dir}/text`;
    writeFileSync(text, "no certificate");
    writeFileSync(`${text}2`, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    expect(problemsOf({ ...good, ca: authority.ca })).toEqual([]);
    expect(problemsOf({ ...good, key: "/no/such/key" })[0]).toMatch(/^key: cannot be read: ENOENT/);
    expect(problemsOf({ ...good, key: other.key })).toEqual(["key: does not belong to the certificate in cert"]);
    expect(problemsOf({ ...good, key: text })).toEqual(["key: is not a private key in PEM without a passphrase"]);
    expect(problemsOf(expired)[0]).toMatch(/^cert: expired on .* GMT$/);
    expect(problemsOf(later)[0]).toMatch(/^cert: is valid from .* GMT$/);
    expect(problemsOf({ ca: text })).toEqual(["ca: contains no certificate in PEM"]);
    expect(problemsOf({ ca: `${text}2` })).toEqual(["ca: contains an invalid certificate"]);
  });

  it("are replaced when both have changed; until then, and for invalid ones, the old ones stay and the reason is logged", async () => {
    authority = createTestAuthority();
    const paths = authority.issue("server");
    const lines: string[] = [];
    const note = (fields: object, message: string) => void lines.push(`${message} ${JSON.stringify(fields)}`);
    const timers: (() => void)[] = [];
    // The pause after a change is driven: the test decides when the files are read.
    const after = (_: number, work: () => void) => {
      timers.push(work);
      return () => {};
    };
    const clock = { now: () => 0, after };
    const files = openTlsFiles(paths, { name: "tls", clock, log: { info: note, warn: note } });
    const read = () => {
      for (const work of timers.splice(0)) work();
    };
    try {
      const before = files.current();
      const next = createTestAuthority();
      const { pem } = next.issue("server");
      next.remove();
      replace(paths.cert, pem.cert);
      const readUntil = (what: string) =>
        waitFor(what, () => {
          read();
          return lines.some((line) => line.includes(what));
        });
      await readUntil("tls.key: does not belong to the certificate in cert");
      expect(files.current()).toBe(before);
      replace(paths.key, pem.key);
      await readUntil("new connections use them");
      expect(files.current()).toEqual(pem);
    } finally {
      files.close();
    }
  });
});
