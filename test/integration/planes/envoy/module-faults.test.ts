/** Faults of the dynamic module: errors in the script, scripts that do not load, clients that leave, a missing module. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { type EnvoyProcess, startEnvoy } from "../../../support/envoy-process.js";
import { envoyBinary, moduleFolder } from "../../../support/find-envoy.js";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { type Backend, startBackend } from "../../../support/http-backend.js";
import { openRaw } from "../../../support/http-client.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";
import { waitFor } from "../../../support/wait-for.js";

/** Makes the script fail for requests with the header x-break, or return no action. */
const breakable = (text: string, name: string) =>
  name === "tollgate.lua"
    ? text.replace(
        /_G\.tollgate_request = (.*)\n/,
        'local tollgateRequest = $1\n_G.tollgate_request = function(stream, ended)\n  local api = require("src.planes.envoy.worker.request")\n  if api.header("x-break") == "no action" then return nil end\n  if api.header("x-break") ~= "" then error("broken") end\n  return tollgateRequest(stream, ended)\nend\n',
      )
    : text;

describeEnvoy("Envoy's dynamic module", () => {
  let redis: RedisServer;
  let backend: Backend;
  let service: GatewayProcess;
  let envoy: EnvoyProcess;
  let called = 0;
  const ask = (headers: Record<string, string> = {}) =>
    fetch(`${envoy.url}/`, { headers: { "x-app-id": "few", ...headers } });

  beforeAll(async () => {
    redis = await startRedis();
    backend = await startBackend((_request, response) => {
      called += 1;
      response.end("hello");
    });
    const yaml = `store: ${redis.url}
log: { level: warn }
lease: { timeout_ms: 5000 }
identity: { trusted_hops: ["127.0.0.0/8"] }
upstreams: { backend: { targets: ["127.0.0.1:${backend.port}"] } }
routes: [{ path: /, upstream: backend }]
apps:
  default: { guaranteed: 1000, burst: 1000 }
  few: { guaranteed: 100, burst: 100, profile: { based_on: iops, bandwidth: 0 } }
  once: { guaranteed: 0.001, burst: 1, on_store_failure: closed, profile: { based_on: iops, bandwidth: 0 } }
`;
    service = await startGateway(`node_id: service\nworkers: 1\n${yaml}`);
    const services = [service.controlUrl.replace("http://", "")];
    envoy = await startEnvoy(yaml, { services, mode: "module", node: "envoy-0", edit: breakable });
    await waitFor("the first decision", async () => (await ask()).status === 200);
  });

  afterAll(async () => {
    await envoy?.stop();
    await service?.stop();
    await backend?.stop();
    await redis?.stop();
  });

  test("an error in the script refuses the request, and the backend is not called", async () => {
    called = 0;
    const response = await ask({ "x-break": "yes" });
    expect([response.status, await response.json()]).toEqual([
      503,
      { error: "service_unavailable", reason: "plane_error" },
    ]);
    expect(called).toBe(0);
    await waitFor("the log line", () => envoy.log().includes("broken"));
    expect((await ask()).status).toBe(200);
  });

  test("a script that names no action refuses the request, and the backend is not called", async () => {
    called = 0;
    const response = await ask({ "x-break": "no action" });
    expect([response.status, await response.json()]).toMatchObject([503, { reason: "plane_error" }]);
    expect(called).toBe(0);
  });

  test("a request whose client leaves while it waits uses no tokens", async () => {
    const active = async () => {
      const text = await envoy.admin("/stats?filter=http.tollgate.downstream_rq_active");
      return Number(/downstream_rq_active: (\d+)/.exec(text)?.[1]);
    };
    process.kill(redis.pid, "SIGSTOP");
    const client = await openRaw(envoy.port);
    let answered = false;
    client.socket.once("data", () => (answered = true));
    client.write("GET / HTTP/1.1\r\nHost: a\r\nX-App-Id: once\r\n\r\n");
    // On a busy machine the store can seem slow even before: then the request is refused at once.
    await waitFor("the request to wait", async () => answered || (await active()) === 1);
    client.socket.destroy();
    // A request that is answered before Envoy notices it has used its token.
    await waitFor("Envoy to notice it", async () => (await active()) === 0);
    process.kill(redis.pid, "SIGCONT");
    await waitFor("the token to be free again", async () => (await ask({ "x-app-id": "once" })).status === 200);
    await waitFor("the next to be refused", async () => (await ask({ "x-app-id": "once" })).status === 429);
  });

  test("a script that does not load changes nothing", async () => {
    const file = join(envoy.dir, "tollgate.lua");
    const text = readFileSync(file, "utf8");
    writeFileSync(`${file}.next`, `error("does not load")\n${text}`);
    renameSync(`${file}.next`, file);
    await waitFor("the log line", () => envoy.log().includes("does not load"));
    expect((await ask()).status).toBe(200);
    writeFileSync(`${file}.next`, text);
    renameSync(`${file}.next`, file);
  });

  test("an Envoy that never reaches a service decides as on_store_failure says", async () => {
    const app = (policy: string) => `{ guaranteed: 100, burst: 100, on_store_failure: ${policy} }`;
    const alone = await startEnvoy(
      `lease: { timeout_ms: 300 }
identity: { trusted_hops: ["127.0.0.0/8"] }
upstreams: { backend: { targets: ["127.0.0.1:${backend.port}"] } }
routes: [{ path: /, upstream: backend }]
apps: { open: ${app("open")}, closed: ${app("closed")} }
`,
      { services: ["127.0.0.1:9"], mode: "module", node: "alone" },
    );
    try {
      const of = (app: string) => fetch(alone.url, { headers: { "x-app-id": app } });
      expect((await of("open")).status).toBe(200);
      const refused = await of("closed");
      expect([refused.status, await refused.json()]).toMatchObject([503, { reason: "store_unavailable" }]);
    } finally {
      await alone.stop();
    }
  });

  test("Envoy does not start without the module, without its script, or with one for another version of the module", () => {
    const folder = mkdtempSync(join(tmpdir(), "tollgate-"));
    const validate = (file: string, modules: string): string => {
      try {
        const env = { ...process.env, ENVOY_DYNAMIC_MODULES_SEARCH_PATH: modules };
        execFileSync(envoyBinary(), ["--mode", "validate", "-c", file], { env, stdio: "pipe" });
        return "started";
      } catch (error) {
        return String((error as { stderr: Buffer }).stderr);
      }
    };
    const good = join(envoy.dir, "envoy.yaml");
    const other = join(folder, "envoy.yaml");
    writeFileSync(other, readFileSync(good, "utf8").replace("/tollgate.lua", "/missing.lua"));
    expect(validate(good, folder)).toMatch(/Failed to load dynamic module/);
    expect(validate(other, moduleFolder())).toMatch(/tollgate: cannot read .*missing\.lua/);
    const newer = readFileSync(join(envoy.dir, "tollgate.lua"), "utf8").replaceAll(
      "tollgate_dialed",
      "tollgate_of_a_later_version",
    );
    writeFileSync(join(folder, "newer.lua"), newer);
    writeFileSync(
      other,
      readFileSync(good, "utf8").replaceAll(join(envoy.dir, "tollgate.lua"), join(folder, "newer.lua")),
    );
    expect(validate(other, moduleFolder())).toMatch(/undefined symbol: tollgate_of_a_later_version/);
    expect(validate(good, moduleFolder())).toBe("started");
    rmSync(folder, { recursive: true });
  });
});
