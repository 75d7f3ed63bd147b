/** A service whose store cannot run functions states the requirement in its log at start-up. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import type * as contract from "../../../../src/service/operations/contract/contract.js";
import { freePort } from "../../../support/ports.js";
import { startProcess } from "../../../support/processes.js";
import { tollgateProgram } from "../../../support/program.js";
import { startRedis } from "../../../support/redis-server.js";
import { waitFor } from "../../../support/wait-for.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** Starts a service without routes and waits until its log contains `text`. */
async function logWith(text: string, store: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-serve-"));
  endings.push(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "tollgate.yaml");
  writeFileSync(file, `store: ${store}\ncontrol: { listen: "127.0.0.1:${await freePort()}" }\n`);
  const service = startProcess(process.execPath, [...tollgateProgram(), "serve", "--config", file], process.cwd());
  endings.push(() => service.end("SIGKILL"));
  await waitFor(`"${text}" in the log`, () => service.output().includes(text));
  return service.output();
}

test("the log states the requirement for a Redis without the FUNCTION command", async () => {
  const redis = await startRedis({ args: ["--rename-command", "FUNCTION", ""] });
  endings.push(() => redis.stop());
  await logWith("does not support functions. Tollgate needs Redis 7.0 or later, or Valkey", redis.url);
});

test("the log states the requirement for a user without permission for functions", async () => {
  const redis = await startRedis();
  endings.push(() => redis.stop());
  await redis.command("ACL", "SETUSER", "narrow", "on", ">narrow-secret", "~*", "&*", "+@all", "-function", "-fcall");
  const log = await logWith("(ACL: +fcall +function|load)", `redis://narrow:narrow-secret@127.0.0.1:${redis.port}`);
  expect(log).not.toContain("narrow-secret");
});

test("a wrong password is reported as such, not as an error of the configuration or a missing reply", async () => {
  const redis = await startRedis({ args: ["--requirepass", "right-secret"], client: { password: "right-secret" } });
  endings.push(() => redis.stop());
  const log = await logWith('"msg":"dashboard"', `redis://:wrong-secret@127.0.0.1:${redis.port}`);
  expect(log).toContain("WRONGPASS");
  expect(log).not.toContain("invalid configuration");
  const [, url = ""] = /"url":"([^"]+)"/.exec(log) ?? [];
  const deep = (await (await fetch(new URL("/health/deep", url))).json()) as contract.DeepReply;
  const { components } = deep;
  expect(components.redis.warnings).toEqual([expect.stringMatching(/WRONGPASS .* Check its user and password\.$/)]);
  expect(components.config).toMatchObject({ status: "healthy", last_error: null });
  expect(JSON.stringify(components)).not.toContain("wrong-secret");
});
