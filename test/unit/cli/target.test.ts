/** Which service a command calls, with which token, and in whose name. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, test, vi } from "vitest";
import { UsageError } from "../../../src/cli/command.js";
import { readSignature, readTarget } from "../../../src/cli/control/target.js";

const dir = mkdtempSync(join(tmpdir(), "tollgate-target-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function file(name: string, text: string): string {
  const path = join(dir, name);
  writeFileSync(path, text);
  return path;
}

const token = "admin-token-0123456789";

describe("the service", () => {
  it("is on this machine by default", () => {
    expect(readTarget({}, {})).toEqual({ url: "http://127.0.0.1:9145", token: "", timeoutMs: 10_000 });
  });

  it("is taken from the option, then the file, then the environment", () => {
    const env = { TOLLGATE_URL: "http://from-env:1" };
    const config = file("listen.yaml", "control: { listen: 10.1.2.3:9999 }");
    expect(readTarget({}, env).url).toBe("http://from-env:1");
    expect(readTarget({ config }, env).url).toBe("http://10.1.2.3:9999");
    expect(readTarget({ config, url: "https://from-option/behind/" }, env).url).toBe("https://from-option/behind");
  });

  test.each([
    ["0.0.0.0:9145", "http://127.0.0.1:9145"],
    ["[::]:9145", "http://[::1]:9145"],
    ["[fd00::1]:9145", "http://[fd00::1]:9145"],
    ["control.internal:80", "http://control.internal"],
  ])("that listens on %s is called at %s", (listen, url) => {
    const config = file("any.yaml", `control: { listen: "${listen}" }`);
    expect(readTarget({ config }, {}).url).toBe(url);
  });

  test.each([
    [{ url: "127.0.0.1:9145" }, /--url: .*is not/],
    [{ url: "ftp://127.0.0.1" }, /is not an HTTP URL/],
    [{ url: "http://user:secret@host" }, /a URL with a user or password is not allowed/],
    [{ url: "http://host/?x=1" }, /only scheme, host, port and path/],
    [{ timeout: "soon" }, /--timeout: "soon" is not a duration/],
    [{ timeout: "0s" }, /--timeout/],
    [{ config: "no-such-file.yaml" }, /--config: no-such-file.yaml: cannot be read/],
    [{ "token-file": "no-such-file" }, /--token-file: .*no-such-file/],
  ])("is rejected for %j", (values, reason) => {
    expect(() => readTarget(values, {})).toThrow(UsageError);
    expect(() => readTarget(values, {})).toThrow(reason);
  });

  it("is not taken from an invalid file, and the error message says what to do", () => {
    const config = file("wrong.yaml", "control: { listn: x }\nworkers: 0");
    expect(() => readTarget({ config }, {})).toThrow(
      /--config: workers: must be .*, and 1 more; see tollgate check-config, or use --url/,
    );
    const portless = file("portless.yaml", "control: { listen: 127.0.0.1:0 }");
    expect(() => readTarget({ config: portless }, {})).toThrow("has no port; use --url");
  });
});

describe("the token", () => {
  const env = { TOLLGATE_ADMIN_TOKEN: "from-the-environment" };

  it("is taken from the token file, then the config, then the environment", () => {
    const config = file("token.yaml", `control: { admin_token: ${token} }`);
    const tokenFile = file("token", "from-the-file-012345\n");
    expect(readTarget({}, env).token).toBe("from-the-environment");
    expect(readTarget({ config }, env).token).toBe(token);
    expect(readTarget({ config, "token-file": tokenFile }, env).token).toBe("from-the-file-012345");
    expect(readTarget({ config: file("none.yaml", "listen: 0.0.0.0:1") }, env).token).toBe("from-the-environment");
  });

  it("never appears in an error message", () => {
    const tokenFile = file("two-lines", "first-secret\nsecond-secret\n");
    expect(() => readTarget({ "token-file": tokenFile }, {})).toThrow(UsageError);
    expect(() => readTarget({ "token-file": tokenFile }, {})).not.toThrow(/secret/);
    expect(() => readTarget({}, { TOLLGATE_ADMIN_TOKEN: "a secret" })).not.toThrow(/a secret/);
    expect(() => readTarget({ "token-file": file("empty", "\n") }, {})).toThrow("is empty");
  });
});

describe("the operator", () => {
  it("is the user by default", () => {
    vi.stubEnv("USER", "kim");
    expect(readSignature({})).toEqual({ operator: "kim" });
    expect(readSignature({ operator: "alex", reason: "why not" })).toEqual({ operator: "alex", reason: "why not" });
    vi.unstubAllEnvs();
  });

  it("and the reason have a maximum length", () => {
    expect(() => readSignature({ operator: "x".repeat(129) })).toThrow("--operator: more than 128 characters");
    expect(() => readSignature({ reason: "x".repeat(513) })).toThrow("--reason: more than 512 characters");
  });
});
