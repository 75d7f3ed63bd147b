/**
 * A real Envoy with the dynamic module, and the primary's part of a service in this process, on an embedded store whose clock the
 * test drives, with one app of a small burst.
 */
import { once } from "node:events";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createLiveConfig } from "../../src/config/live/live.js";
import { createQuota } from "../../src/quota/quota.js";
import { createControlPlane } from "../../src/service/process/control-plane.js";
import type { Log } from "../../src/shared/log.js";
import { createEmbeddedStore } from "../../src/store/embedded/embedded-store.js";
import { startEnvoy } from "./envoy-process.js";
import { ADMIN_TOKEN } from "./gateway-process.js";
import { fetchReply } from "./http-client.js";
import { BURST, type MeteredPlane, type MeteredPlaneOptions, RATE } from "./metered-gateway.js";
import { parseYaml } from "./nginx-process.js";
import { freePort } from "./ports.js";
import { waitFor } from "./wait-for.js";

const CLUSTER = { id: "metered", capacity: 1_000_000, rate: 1_000_000, nodeTtlMs: 3_600_000 };

/** A route to the service instead of the backend. */
const WARM = "/warm/";
const KEY = "dGhlIHNhbXBsZSBub25jZQ==";

export interface MeteredEnvoy extends MeteredPlane {
  /** The resident memory of Envoy, in bytes. */
  memory(): Promise<number>;
  log(): string;
  /** Renders the script again, and waits until the module has loaded it. */
  replaceScript(): Promise<void>;
}

export interface MeteredEnvoyOptions extends MeteredPlaneOptions {
  /** Of `.cache/envoy`; default: the newest. */
  binary?: string | undefined;
  bodyBytes?: number;
}

export async function startMeteredEnvoy(options: MeteredEnvoyOptions): Promise<MeteredEnvoy> {
  const { target, policy, dryRun = false, bodyIdleMs = 60_000, bodyBytes, binary } = options;
  let seconds = 1_800_000_000;
  const store = createEmbeddedStore({ clock: () => seconds * 1_000_000 });
  const none = () => undefined;
  const log = { debug: none, info: none, warn: none, error: none } as unknown as Log;
  const port = await freePort();
  const yaml = `
cluster: { id: ${CLUSTER.id}, capacity: ${CLUSTER.capacity}, rate: ${CLUSTER.rate}, node_ttl_ms: ${CLUSTER.nodeTtlMs}, automatic_emergency: false }
apps: { default: { guaranteed: ${RATE}, burst: ${BURST}, unknown_length: ${policy}, dry_run: ${dryRun}, on_store_failure: closed }, warm: { guaranteed: 1000, burst: 1000, on_store_failure: closed } }
upstreams: { backend: { targets: ["${target}"] }, service: { targets: ["127.0.0.1:${port}"] } }
routes: [{ path: /, upstream: backend, connections: {} }, { path: ${WARM}, upstream: service, connections: {} }]
timeouts: { body_idle_ms: ${bodyIdleMs}, response_ms: 60000 }
overload: { loop_lag_ms: 0, heap: 0, memory_mb: 0, files: 0 }
lease: { timeout_ms: 5000 }
${bodyBytes === undefined ? "" : `request_limits: { body_bytes: ${bodyBytes} }`}
`;
  const initial = parseYaml(yaml, 0, `admin_token: ${ADMIN_TOKEN}`);
  const live = createLiveConfig({
    ...{
      initial,
      yaml,
      file: "",
      env: {},
      store,
      clusterId: CLUSTER.id,
      node: "service",
      log,
      watchFile: false,
    },
  });
  const workers = { send: none, ask: async () => [], counts: () => ({ expected: 0, listening: 0 }) };
  const control = createControlPlane({ live, store, log, state: () => "running", workers });
  control.server.listen(port, "127.0.0.1");
  await once(control.server, "listening");
  // On a busy machine calls may be so slow that planes stop waiting for the store: not here.
  const pinned = await fetch(`http://127.0.0.1:${port}/admin/ratelimit/degradation`, {
    method: "POST",
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify({ level: 0, duration_seconds: 600 }),
  });
  if (!pinned.ok) throw new Error(await pinned.text());
  const services = [`127.0.0.1:${port}`];
  const envoy = await startEnvoy(yaml, {
    services,
    mode: "module",
    node: "envoy",
    workers: 1,
    binary,
    edit: closeSoon,
  });
  // The service does not upgrade, but the module has then taken a slot and tokens.
  const upgrade = {
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": KEY,
  };
  await waitFor("decisions with the store", async () => {
    const reply = await fetchReply(envoy.port, WARM, { headers: { "X-App-Id": "warm", ...upgrade } });
    if (reply.status >= 500) throw new Error(`${reply.status} ${reply.body}`);
    return true;
  });
  let closing: Promise<number> | undefined;

  /** Envoy reports and returns everything when it exits. */
  function close(): Promise<number> {
    closing ??= (async () => {
      const pid = envoy.pid();
      envoy.signal("SIGTERM");
      await waitFor("Envoy to exit", () => !isRunning(pid));
      await envoy.stop();
      const bucket = { id: "default", guaranteed: RATE, burst: BURST, priority: 2, borrow: false };
      const { spent } = await createQuota(store, CLUSTER).inspect(bucket);
      await control.close();
      await live.close();
      await store.close();
      return spent;
    })();
    return closing;
  }

  return {
    port: envoy.port,
    log: envoy.log,
    async replaceScript() {
      const loads = () => envoy.log().split("tollgate: loaded ").length;
      const before = loads();
      const file = join(envoy.dir, "tollgate.lua");
      writeFileSync(`${file}.next`, `${readFileSync(file, "utf8")}\n-- again\n`);
      renameSync(`${file}.next`, file);
      await waitFor("the module to load the script", () => loads() > before);
    },
    refill(tokens) {
      seconds += tokens / RATE;
    },
    charged: close,
    async stop() {
      await close();
    },
    async memory() {
      return Number(JSON.parse(await envoy.admin("/memory")).allocated);
    },
  };
}

/** By default, Envoy waits a second before it closes the connection of a refused upload. */
function closeSoon(text: string): string {
  return text.replace(/^( *)stat_prefix: "tollgate"$/m, '$&\n$1delayed_close_timeout: "0.2s"');
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
