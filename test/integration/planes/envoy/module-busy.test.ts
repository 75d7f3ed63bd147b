/** Envoy's main thread is busy: with its own work, such as a large configuration, or because it loads a script for many workers. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { type EnvoyProcess, startEnvoy } from "../../../support/envoy-process.js";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { type Backend, startBackend } from "../../../support/http-backend.js";
import { waitFor } from "../../../support/wait-for.js";

const folder = mkdtempSync(join(tmpdir(), "tollgate-busy-"));
/** While this file exists, the main thread is busy for so many milliseconds whenever it was woken. */
const busyFile = join(folder, "busy");

const BUSY = `
local clock = require("src.planes.lua.system-clock")
local function busyMs()
  local file = io.open("${busyFile}")
  if file == nil then return 0 end
  local text = file:read("*a")
  file:close()
  return tonumber(text) or 0
end
_G.tollgate_wake = function()
  woken()
  local started = clock.systemNowMs()
  while clock.systemNowMs() - started < busyMs() do end
end
`;
const canBeBusy = (text: string, name: string) =>
  name === "tollgate.lua" ? text.replace("_G.tollgate_wake = woken\n", BUSY) : text;

describeEnvoy("while Envoy's main thread is busy", () => {
  let backend: Backend;
  let service: GatewayProcess;
  let envoy: EnvoyProcess;
  let users = 0;
  /** For a new user, so that the decision needs the store. */
  const ask = (user = `user-${++users}`) =>
    fetch(`${envoy.url}/`, { headers: { "x-user-id": user }, signal: AbortSignal.timeout(30_000) });

  beforeAll(async () => {
    backend = await startBackend((_request, response) => response.end("hello"));
    const yaml = `log: { level: warn }
lease: { timeout_ms: 500 }
identity: { trusted_hops: ["127.0.0.0/8"] }
upstreams: { backend: { targets: ["127.0.0.1:${backend.port}"] } }
routes: [{ path: /, upstream: backend }]
apps: { default: { guaranteed: 100000 } }
limits: [{ name: per-user, key: [user], rate: 10/s }]
`;
    service = await startGateway(`store: embedded\nworkers: 1\n${yaml}`);
    envoy = await startEnvoy(yaml, {
      services: [service.controlUrl.replace("http://", "")],
      node: "busy",
      edit: canBeBusy,
    });
    await waitFor("the first decision", async () => (await ask()).status === 200);
  });

  afterEach(() => rmSync(busyFile, { force: true }));
  afterAll(async () => {
    await envoy?.stop();
    await service?.stop();
    await backend?.stop();
    rmSync(folder, { recursive: true });
  });

  test("its delay does not count as latency of the store", async () => {
    writeFileSync(busyFile, "150");
    let level = 0;
    for (let i = 0; i < 20; i++) {
      await ask();
      const metrics = await (await fetch(`${service.controlUrl}/metrics`)).text();
      const shown = /^ratelimit_degradation_level\{node_id="busy-[^"]*"\} (\d)$/m.exec(metrics)?.[1];
      expect(shown).toBeDefined();
      level = Math.max(level, Number(shown));
    }
    // From level 2 on, requests do not wait for the store. On a busy machine it may really be slow.
    expect(level).toBeLessThan(2);
  });

  test("a request that waits for tokens is decided without it in the end", async () => {
    writeFileSync(busyFile, "60000");
    const { status } = await ask();
    expect({ status, isBusy: existsSync(busyFile) }).toEqual({ status: 200, isBusy: true });
  });
});
