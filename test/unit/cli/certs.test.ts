/** `tollgate certs`: a TLS connection with its files succeeds, a repeated call keeps the CA, and invalid input changes nothing. */
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, createServer, type TLSSocket } from "node:tls";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { runCommandLine } from "../../../src/cli/command-line.js";
import { certificateNames } from "../../../src/shared/tls/certificate-names.js";
import { readTlsFiles } from "../../../src/shared/tls/tls-files.js";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "tollgate-certs-command-"));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(dir, { recursive: true, force: true });
});

const certs = (...args: string[]) => runCommandLine(["certs", dir, ...args]);
const contents = (name: string) => readFileSync(join(dir, name), "utf8");
const filesOf = (name: string) => ({
  cert: join(dir, `${name}.pem`),
  key: join(dir, `${name}-key.pem`),
  ca: join(dir, "ca.pem"),
});

/** The names that the server sees in the certificate of the client. */
async function handshake(servername: string, plane: string): Promise<readonly string[]> {
  const server = createServer({ ...readTlsFiles(filesOf("service")).material, requestCert: true });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const accepted = once(server, "secureConnection") as Promise<[TLSSocket]>;
  const client = connect({ port, servername, ...readTlsFiles(filesOf(plane)).material });
  await once(client, "secureConnect");
  const names = certificateNames((await accepted)[0]);
  client.destroy();
  server.close();
  return names;
}

it("creates a CA, a certificate of the service, and one per plane, that verify each other", async () => {
  const { text, exitCode } = await certs("--host", "tollgate.internal", "--host", "10.0.0.5", "--plane", "edge-1");
  expect(exitCode).toBe(0);
  expect(text).toContain(`created the CA in ${join(dir, "ca.pem")}`);
  expect(readdirSync(dir).sort()).toEqual([
    ...["ca-key.pem", "ca.pem", "edge-1-key.pem", "edge-1.pem", "service-key.pem", "service.pem"],
  ]);
  for (const name of ["ca", "service", "edge-1"]) {
    expect(readTlsFiles(filesOf(name)).problems).toEqual([]);
    expect(statSync(filesOf(name).key).mode & 0o777).toBe(0o600);
  }
  expect(await handshake("tollgate.internal", "edge-1")).toEqual(["edge-1"]);
  const { subjectAltName } = new X509Certificate(contents("service.pem"));
  for (const name of ["DNS:localhost", "127.0.0.1", "0:0:0:0:0:0:0:1", "DNS:tollgate.internal", "10.0.0.5"]) {
    expect(subjectAltName).toContain(name);
  }
});

it("a repeated call keeps the CA and replaces the certificates", async () => {
  await certs("--plane", "edge-1");
  const [ca, service, plane] = ["ca.pem", "service.pem", "edge-1.pem"].map(contents);
  const { text } = await certs("--days", "5", "--json");
  expect(JSON.parse(text)).toMatchObject({ ca: { created: false }, certificates: [{ name: "service" }] });
  expect(contents("ca.pem")).toBe(ca);
  expect(contents("service.pem")).not.toBe(service);
  expect(contents("edge-1.pem")).toBe(plane);
  const days = (Date.parse(new X509Certificate(contents("service.pem")).validTo) - Date.now()) / 86_400_000;
  expect(days).toBeGreaterThan(4.9);
  expect(days).toBeLessThanOrEqual(5);
  expect(await handshake("localhost", "edge-1")).toEqual(["edge-1"]);
});

it.each([
  [["--host", "a b"], "--host"],
  [["--host", ""], "--host"],
  [["--plane", "../x"], "--plane"],
  [["--plane", "ca"], "--plane"],
  [["--plane", "service"], "--plane"],
  [["--plane", "a-key"], "--plane"],
  [["--plane", "a".repeat(65)], "has more than 64 characters"],
  [["--days", "0"], "--days"],
  [["--days", "826"], "--days"],
  [["--days", "x"], "--days"],
  [["second-dir"], "second-dir"],
])("%j is refused, and nothing is written", async (args, named) => {
  const { exitCode, complaint } = await certs(...args);
  expect(exitCode).toBe(2);
  expect(complaint).toContain(named);
  expect(readdirSync(dir)).toEqual([]);
});

it("refuses a CA without its key, or with another one, and writes nothing", async () => {
  await certs();
  const other = await runCommandLine(["certs", join(dir, "other")]);
  expect(other.exitCode).toBe(0);
  const before = contents("service.pem");
  writeFileSync(join(dir, "ca-key.pem"), contents("other/ca-key.pem"));
  expect(await certs()).toMatchObject({ exitCode: 1, complaint: expect.stringContaining("not a CA and its key") });
  unlinkSync(join(dir, "ca-key.pem"));
  expect(await certs()).toMatchObject({ exitCode: 1, complaint: expect.stringContaining("ca-key.pem is missing") });
  expect(contents("service.pem")).toBe(before);
});

it("says that openssl is missing, and writes nothing", async () => {
  vi.stubEnv("PATH", dir);
  expect(await certs()).toMatchObject({
    exitCode: 1,
    complaint: expect.stringContaining("the command openssl is needed"),
  });
  expect(readdirSync(dir)).toEqual([]);
});
