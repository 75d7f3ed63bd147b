/** Passwords, users and TLS: valid ones work, others are denied, and no error contains a secret. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect, promisify } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { RedisStoreOptions } from "../../../src/store/redis/redis-store.js";
import { loopMs } from "../../support/loop-time.js";
import { freePort } from "../../support/ports.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";
import { openTestStore, type TestStore } from "../../support/store-scripts.js";
import { waitFor } from "../../support/wait-for.js";

const PASSWORD = "p@ss/w:rd%";
const open: TestStore[] = [];

afterEach(() => Promise.all(open.splice(0).map((store) => store.close())));

function openStore(options: RedisStoreOptions): TestStore {
  const store = openTestStore(options);
  open.push(store);
  return store;
}

async function failureOf(call: Promise<unknown>): Promise<Error> {
  return call.then(
    () => {
      throw new Error("the call went well");
    },
    (error: unknown) => error as Error,
  );
}

describe("with a password", () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis({ args: ["--requirepass", PASSWORD], client: { password: PASSWORD } });
  });
  afterAll(() => redis.stop());

  const at = (user: string, password: string) =>
    `redis://${user}:${encodeURIComponent(password)}@127.0.0.1:${redis.port}`;

  it("connects with the right password", async () => {
    expect(await openStore({ url: at("", PASSWORD) }).run("add", ["k"], [])).toEqual([1]);
    expect(await openStore({ url: at("default", PASSWORD) }).run("add", ["k"], [])).toEqual([2]);
  });

  it.each([
    ["a wrong password", () => at("", "wrong-secret")],
    ["an unknown user", () => at("nobody", "wrong-secret")],
    ["no password", () => redis.url],
  ])("denies calls with %s before the deadline, and no error contains the password", async (_, url) => {
    const store = openStore({ url: url(), deadlineMs: 10_000 });
    const start = loopMs();
    const error = await failureOf(store.run("add", ["k"], []));
    expect(loopMs() - start).toBeLessThan(5_000);
    expect(error).toMatchObject({ kind: "denied" });
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain("wrong-secret");
    expect(await failureOf(store.inspect())).toMatchObject({ kind: "denied" });
  });

  it("connects without a restart once the password is right", async () => {
    const store = openStore({ url: at("", "new-secret") });
    expect(await failureOf(store.run("add", ["k"], []))).toMatchObject({ kind: "denied" });
    await redis.command("CONFIG", "SET", "requirepass", "new-secret");
    await waitFor("a successful call", () => store.run("add", ["k"], []));
    await redis.command("CONFIG", "SET", "requirepass", PASSWORD);
  });

  it("rejects with denied when the user may not run a command of the script or use its keys", async () => {
    await redis.command("ACL", "SETUSER", "narrow", "on", ">narrow-secret", "~mine:*", "+@all", "-incr");
    const store = openStore({ url: at("narrow", "narrow-secret") });
    expect(await store.run("put", ["mine:k"], ["v"])).toEqual([1]);
    expect(await failureOf(store.run("add", ["mine:n"], []))).toMatchObject({ kind: "denied" });
    expect(await failureOf(store.run("put", ["other:k"], ["v"]))).toMatchObject({ kind: "denied" });
  });

  it.each([
    ["FCALL", ["-fcall"]],
    ["FUNCTION LOAD", ["-function|load"]],
    ["FUNCTION", ["-function"]],
  ])(
    "rejects calls of a user who may not run %s, and states the permissions, until they are granted",
    async (_, rules) => {
      await redis.command("FUNCTION", "FLUSH");
      await redis.command("ACL", "SETUSER", "bound", "reset", "on", ">bound-secret", "~*", "&*", "+@all", ...rules);
      const store = openStore({ url: at("bound", "bound-secret") });
      const refusal = {
        kind: "denied",
        message: expect.stringMatching(/needs Redis 7\.0 or later, or Valkey.*\(ACL: \+fcall \+function\|load\)/),
      };
      expect(await failureOf(store.run("put", ["k3"], ["v"]))).toMatchObject(refusal);
      expect(await failureOf(store.inspect())).toMatchObject(refusal);
      await redis.command("ACL", "SETUSER", "bound", "+@all");
      await waitFor("a successful call", () => store.run("put", ["k3"], ["v"]));
    },
  );

  it("works for a user who may not load functions when the library is already loaded", async () => {
    expect(await openStore({ url: at("", PASSWORD) }).run("put", ["k4"], ["v"])).toEqual([1]);
    await redis.command("ACL", "SETUSER", "caller", "on", ">caller-secret", "~*", "+@all", "-function");
    expect(await openStore({ url: at("caller", "caller-secret") }).run("put", ["k4"], ["v"])).toEqual([1]);
  });

  it("works for a user without INFO, and warns", async () => {
    await redis.command("ACL", "SETUSER", "blind", "on", ">blind-secret", "~*", "+@all", "-info");
    const store = openStore({ url: at("blind", "blind-secret") });
    expect(await store.run("put", ["k2"], ["v"])).toEqual([1]);
    expect(await store.inspect()).toMatchObject({
      version: "unknown",
      warnings: [expect.stringMatching(/may not run INFO/)],
    });
  });
});

it.each(["FCALL", "FUNCTION"])(
  "rejects calls to a server without the command %s, and states what is needed",
  async (command) => {
    const redis = await startRedis({ args: ["--rename-command", command, ""] });
    const refusal = {
      kind: "unavailable",
      message: expect.stringMatching(/does not support functions\. Tollgate needs Redis 7\.0 or later, or Valkey/),
    };
    const store = openStore({ url: redis.url });
    expect(await failureOf(store.run("put", ["k"], ["v"]))).toMatchObject(refusal);
    expect(await failureOf(store.inspect())).toMatchObject(refusal);
    await redis.stop();
  },
);

describe("with TLS", () => {
  let redis: RedisServer;
  let folder: string;
  let ca: Buffer;
  let url: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tollgate-tls-"));
    await promisify(execFile)(
      "openssl",
      [
        ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"],
        ...["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        ...["-keyout", "key.pem", "-out", "cert.pem"],
      ],
      { cwd: folder },
    );
    ca = await readFile(join(folder, "cert.pem"));
    const port = await freePort();
    redis = await startRedis({
      args: [
        ...["--tls-port", String(port), "--tls-auth-clients", "no", "--requirepass", "tls-secret"],
        ...["--tls-cert-file", join(folder, "cert.pem"), "--tls-key-file", join(folder, "key.pem")],
        ...["--tls-ca-cert-file", join(folder, "cert.pem")],
      ],
      client: { password: "tls-secret" },
    });
    url = `rediss://:tls-secret@localhost:${port}`;
  });
  afterAll(async () => {
    await redis?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  it("connects to a server whose certificate it trusts", async () => {
    expect(await openStore({ url, tls: { ca } }).run("add", ["k"], [])).toEqual([1]);
  });

  it("does not send commands to a server with an untrusted certificate", async () => {
    const error = await failureOf(openStore({ url, deadlineMs: 500 }).run("add", ["k"], []));
    expect(error).toMatchObject({ kind: "unavailable" });
    expect(inspect(error, { depth: 10 })).toMatch(/certificate/i);
    expect(inspect(error, { depth: 10 })).not.toContain("tls-secret");
  });

  it("survives what a server sends after its certificate was rejected", async () => {
    const errors: Error[] = [];
    const record = (error: Error) => errors.push(error);
    process.prependListener("uncaughtException", record);
    for (let round = 0; round < 3; round++) {
      const stores = Array.from({ length: 30 }, () => openStore({ url, deadlineMs: 500 }));
      await Promise.all(stores.map((store) => failureOf(store.run("add", ["k"], []))));
    }
    process.off("uncaughtException", record);
    expect(errors).toEqual([]);
  });

  it("fails within the deadline when the server does not use TLS", async () => {
    const start = loopMs();
    const store = openStore({ url: `rediss://:tls-secret@localhost:${redis.port}`, tls: { ca }, deadlineMs: 500 });
    expect(await failureOf(store.run("add", ["k"], []))).toMatchObject({ kind: "unavailable" });
    expect(loopMs() - start).toBeLessThan(2_500);
  });
});
