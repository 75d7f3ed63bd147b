/** `tollgate render envoy --fragment`, added to the configuration of someone else, in a real Envoy. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { command as renderCommand } from "../../../../src/cli/render.js";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { moduleFolder } from "../../../support/find-envoy.js";
import { type ForeignEnvoy, startForeignEnvoy } from "../../../support/foreign-envoy.js";
import { type GatewayProcess, PLANE_TOKEN, startGateway } from "../../../support/gateway-process.js";
import { type Backend, startBackend } from "../../../support/http-backend.js";

import { freePort } from "../../../support/ports.js";

const BY_REQUEST = "profile: { based_on: iops, bandwidth: 0 }";

describeEnvoy("tollgate render envoy --fragment, in an Envoy with other clusters and routes", () => {
  describe.each(["module", "rls"] as const)("--mode %s", (mode) => {
    let folder: string;
    let shop: Backend;
    let pages: Backend;
    let service: GatewayProcess;
    let envoy: ForeignEnvoy;
    let seen: Record<string, unknown> = {};

    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), "tollgate-fragment-"));
      shop = await startBackend((request, response) => response.end(`shop ${request.url}`));
      pages = await startBackend((request, response) => {
        seen = request.headers;
        response.setHeader("x-ratelimit-dry-run", "a backend must not set this");
        response.end(`page ${request.url}`);
      });
      const listen = `127.0.0.1:${await freePort()}`;
      const yaml = `store: embedded
log: { level: warn }
lease: { timeout_ms: 5000 }
identity: { trusted_hops: ["127.0.0.0/8"] }
envoy: { listen: "${listen}" }
apps:
  default: { guaranteed: 1000, burst: 1000, ${BY_REQUEST} }
  three: { guaranteed: 0.001, burst: 3, on_store_failure: closed, ${BY_REQUEST} }
  none-left: { guaranteed: 0.001, burst: 1, ${BY_REQUEST} }
`;
      // Only the service has routes: a gateway listens for clients then, which the test waits for.
      const routes = `upstreams: { pages: { targets: ["${pages.target}"] } }\nroutes: [{ path: /, upstream: pages }]\n`;
      service = await startGateway(`node_id: service\nworkers: 1\n${yaml}${routes}`);
      const file = join(folder, "tollgate.yaml");
      writeFileSync(file, `control: { plane_token: ${PLANE_TOKEN} }\n${yaml}`);
      const control = service.controlUrl.replace("http://", "");
      const out = join(folder, "out");
      renderCommand.run(["envoy", "--fragment", "--mode", mode, "--config", file, "--out", out, "--service", control]);
      envoy = await startForeignEnvoy({ shop: shop.port, pages: pages.port }, out);
    });

    afterAll(async () => {
      await envoy?.stop();
      await service?.stop();
      await shop?.stop();
      await pages?.stop();
      rmSync(folder, { recursive: true, force: true });
    });

    const get = (path: string, headers: Record<string, string> = {}) =>
      fetch(`${envoy.url}${path}`, { headers, redirect: "manual" });

    /** On a busy machine the store can seem slow: then a request gets 503 and is repeated. */
    async function statusOf(path: string, app: string): Promise<number> {
      const { status } = await get(path, { "x-app-id": app });
      return status === 503 ? statusOf(path, app) : status;
    }

    it("keeps their routes, clusters and headers", async () => {
      const [first, second, third] = await Promise.all([get("/shop/a"), get("/b"), get("/old")]);
      expect([await first.text(), await second.text(), third.status]).toEqual(["shop /a", "page /b", 301]);
      expect([first, second].map(({ headers }) => headers.get("x-theirs"))).toEqual(["yes", "yes"]);
    });

    it("enforces one limit across all their routes", async () => {
      const statuses: number[] = [];
      for (const path of ["/shop/a", "/b", "/shop/c", "/d", "/shop/e"]) {
        statuses.push(await statusOf(path, "three"));
      }
      expect(statuses).toEqual([200, 200, 200, 429, 429]);
      expect((await get("/b")).status).toBe(200);
    });

    it("passes on the resolved identity and no API key, and removes headers that only the gateway sets", async () => {
      const response = await get("/", { "x-api-key": "not-a-key", x_app_id: "three" });
      expect(response.headers.get("x-ratelimit-dry-run")).toBeNull();
      expect(seen["x-app-id"]).toBe("default");
      expect([seen["x-api-key"], seen.x_app_id]).toEqual([undefined, undefined]);
    });

    it("refuses paths that servers read differently", async () => {
      expect((await get("/shop%2Fa", { "x-app-id": "three" })).status).toBe(400);
      expect((await get("/a%zz")).status).toBe(400);
    });

    /** Its translator writes the filter like this for an EnvoyExtensionPolicy. */
    async function byEnvoyGateway() {
      const name = "envoy.filters.http.dynamic_modules/tollgate";
      const library = join(moduleFolder(), "libtollgate.so");
      const other = await startForeignEnvoy(
        { shop: shop.port, pages: pages.port },
        join(folder, "out"),
        (bootstrap) => {
          const manager = bootstrap.static_resources.listeners[0]!.filter_chains[0]!.filters[0]!.typed_config;
          const filter = manager.http_filters.find((each) => each.name === "envoy.filters.http.dynamic_modules")!;
          const config = filter.typed_config as { dynamic_module_config: unknown; filter_config: { value: string } };
          Object.assign(filter, { name, disabled: true });
          config.dynamic_module_config = { module: { local: { filename: library } }, do_not_close: true };
          config.filter_config.value = JSON.stringify(config.filter_config.value);
          const { routes } = manager.route_config.virtual_hosts[0]!;
          for (const route of routes) delete route.typed_per_filter_config;
          const enabled = { "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", config: {} };
          routes.at(-1)!.typed_per_filter_config = { [name]: enabled };
        },
      );
      const ask = async (path: string) =>
        (await fetch(`${other.url}${path}`, { headers: { "x-app-id": "none-left" } })).status;
      try {
        expect(await ask("/page")).toBe(200);
        expect(await ask("/page")).toBe(429);
        // The policy does not name this route.
        expect(await ask("/shop/a")).toBe(200);
      } finally {
        await other.stop();
      }
    }
    if (mode === "module") it("enforces limits with the filter as Envoy Gateway writes it", byEnvoyGateway);
  });

  describe("its options", () => {
    let dir: string;
    beforeEach(() => {
      dir = mkdtempSync(join(tmpdir(), "tollgate-fragment-"));
    });
    afterEach(() => rmSync(dir, { recursive: true, force: true }));
    const yaml = `control: { plane_token: a-token-of-data-planes }
apps: { default: { guaranteed: 10 } }
upstreams: { pods: { targets: ["127.0.0.1:1"] } }
routes: [{ path: /ws/, upstream: pods, connections: { max_per_pod: 2 } }, { path: /, upstream: pods, cost_header: X-Cost }]
`;
    const render = (...args: string[]) => {
      writeFileSync(join(dir, "tollgate.yaml"), yaml);
      renderCommand.run(["envoy", "--config", join(dir, "tollgate.yaml"), "--out", join(dir, "out"), ...args]);
    };

    it("names routes with options of their own, so that they can be added to the other's routes", () => {
      render("--fragment");
      const text = readFileSync(join(dir, "out/fragment.yaml"), "utf8");
      expect(text).toContain('metadata: { filter_metadata: { tollgate: { route: "/ws/" } } }');
      expect(text).toContain('metadata: { filter_metadata: { tollgate: { route: "/" } } }');
      expect(readdirSync(join(dir, "out")).sort()).toEqual(["fragment.yaml", "secret-token.yaml", "tollgate.lua"]);
    });

    it.each([
      [["--fragment", "--listen", "127.0.0.1:1"], "--listen: with --fragment, your own configuration has it"],
      [["--fragment", "--dynamic"], "--dynamic: with --fragment, your own configuration has it"],
      [["--fragment", "--istio"], "--fragment and --istio cannot be used together"],
      [["--fragment", "--mode", "lua"], "the Lua filter was removed"],
      [["--fragment", "--gateway", "a"], "--gateway requires --istio or --envoy-gateway"],
      [["--fragment", "--mode", "rls"], "envoy.listen is not set"],
    ])("reports the problem and writes nothing: %s", (args, complaint) => {
      expect(() => render(...args)).toThrow(complaint);
      expect(readdirSync(dir)).not.toContain("out");
    });
  });
});
