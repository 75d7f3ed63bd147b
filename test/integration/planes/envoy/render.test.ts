/** Envoy accepts the output of `tollgate render envoy`, and invalid options are reported before anything is written. */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { parse } from "yaml";
import { command as renderCommand } from "../../../../src/cli/render.js";
import { describeEnvoy, envoyBinary } from "../../../support/envoy-binary.js";
import { moduleFolder } from "../../../support/find-envoy.js";

const run = promisify(execFile);
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "tollgate-render-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const SECRET = "a-token-of-data-planes";
const plain = `
listen: 127.0.0.1:18080
control: { plane_token: ${SECRET} }
envoy: { listen: 127.0.0.1:19146 }
identity: { api_keys: { video: [a-key-of-sixteen-or-more] }, trusted_hops: [10.0.0.0/8, "2001:db8::/32"] }
apps: { video: { guaranteed: 100 }, "odd.app:1": { guaranteed: 1 } }
upstreams:
  backend: { targets: ["127.0.0.1:9001", "http://127.0.0.1:9002"], active: { path: /health } }
  "odd:name": { targets: ["https://127.0.0.1:9003"], pass_host: false }
routes:
  - { path: /, upstream: backend }
  - { path: /api, upstream: "odd:name" }
  - { path: /files/, upstream: backend, host: files.example.com }
`;
const sockets = `${plain}  - { path: /ws/, upstream: pods, connections: { max_per_pod: 2, lease_s: 12 } }
`.replace("upstreams:\n", 'upstreams:\n  pods: { targets: ["127.0.0.1:9101", "[::1]:9102"] }\n');
const named = plain.replace(
  'targets: ["127.0.0.1:9001", "http://127.0.0.1:9002"]',
  "dns: { name: localhost, port: 1 }",
);

function render(yaml: string, ...args: string[]): string {
  const file = join(dir, "tollgate.yaml");
  writeFileSync(file, yaml);
  return String(renderCommand.run(["envoy", "--config", file, "--out", join(dir, "out"), ...args]));
}

const TWO_HOSTS = { name: ":authority", string_match: { contains: "," } };
const read = (name: string) => readFileSync(join(dir, "out", name), "utf8");
const bootstrap = () => parse(read("envoy.yaml"));
const manager = () => bootstrap().static_resources.listeners[0].filter_chains[0].filters[0].typed_config;
const cluster = (name: string) =>
  bootstrap().static_resources.clusters.find((each: { name: string }) => each.name === name);
/** Resolves if Envoy accepts it. */
const envoyTakes = () =>
  run(envoyBinary(), ["--mode", "validate", "-c", join(dir, "out", "envoy.yaml")], {
    env: { ...process.env, ENVOY_DYNAMIC_MODULES_SEARCH_PATH: moduleFolder() },
  });

describeEnvoy("tollgate render envoy", () => {
  it.each([
    ["with the module", plain, []],
    ["with WebSockets", sockets, []],
    ["with separate files for routes, clusters and listeners", sockets, ["--dynamic"]],
    ["with the rate limit service", plain, ["--mode", "rls"]],
    ["with the rate limit service and no trusted hops", plain.replace(/\[10.*\]/, "[]"), ["--mode", "rls"]],
    ["behind a balancer", sockets, ["--behind-alb", "--hops", "2", "--health", "/ok"]],
    ["with host names as addresses", named, ["--service", "localhost:1"]],
    ["with host names in rls mode", named, ["--mode", "rls", "--envoy-service", "localhost:2"]],
  ])("writes a bootstrap that Envoy accepts: %s", async (_what, yaml, args) => {
    render(yaml, ...args);
    const { stdout, stderr } = await envoyTakes();
    expect(stdout + stderr).toContain("OK");
    expect(stdout + stderr).not.toMatch(/work-in-progress/i);
  });

  it("writes a bootstrap that Envoy accepts: the example of docs/ENVOY.md", async () => {
    vi.stubEnv("TOLLGATE_PLANE_TOKEN", SECRET);
    render(readFileSync(new URL("../../../../examples/envoy-websockets/tollgate.yaml", import.meta.url), "utf8"));
    vi.unstubAllEnvs();
    const { stdout, stderr } = await envoyTakes();
    expect(stdout + stderr).toContain("OK");
  });

  it("writes files with the token for their owner only, and no API keys", () => {
    const said = render(plain);
    expect(read("secret-token.yaml")).toContain(SECRET);
    for (const name of ["secret-token.yaml", "tollgate.lua"]) {
      expect(statSync(join(dir, "out", name)).mode & 0o777).toBe(0o600);
    }
    for (const name of ["envoy.yaml", "tollgate.lua"]) expect(read(name)).not.toContain(SECRET);
    for (const name of readdirSync(join(dir, "out"))) expect(read(name)).not.toContain("a-key-of-sixteen-or-more");
    expect(said).not.toContain(SECRET);
  });

  it("in rls mode writes no script, denies without the service, and waits as long as a decision can take", () => {
    render(`${plain}lease: { timeout_ms: 300 }\n`, "--mode", "rls");
    expect(existsSync(join(dir, "out", "tollgate.lua"))).toBe(false);
    const filter = manager().http_filters.find(({ name }: { name: string }) => name.endsWith("ratelimit")).typed_config;
    expect(filter).toMatchObject({ domain: "tollgate", failure_mode_deny: true, timeout: "0.5s" });
  });

  it("matches routes with a host first, then the longest", () => {
    render(plain);
    const hosts = manager().route_config.virtual_hosts as { domains: string[]; routes: { match: unknown }[] }[];
    const twoHosts = expect.objectContaining({ headers: [TWO_HOSTS] });
    const trace = expect.objectContaining({ headers: [{ name: ":method", string_match: { exact: "TRACE" } }] });
    const invalidPath = { safe_regex: { regex: expect.any(String) } };
    const refused = [trace, invalidPath];
    expect(hosts.map(({ domains, routes }) => [domains, routes.map(({ match }) => match)])).toEqual([
      [["files.example.com"], [...refused, { prefix: "/files/" }, { path_separated_prefix: "/api" }, { prefix: "/" }]],
      [["*"], [twoHosts, ...refused, { path_separated_prefix: "/api" }, { prefix: "/" }]],
    ]);
  });

  it("never retries another pod than that of the slot and keeps idle WebSockets", () => {
    render(sockets);
    const { routes } = manager().route_config.virtual_hosts.at(-1);
    const socketRoute = routes.find(({ match }: { match: { prefix: string } }) => match.prefix === "/ws/");
    expect(socketRoute.route).toEqual({ cluster: "tollgate_pods", timeout: "0s", idle_timeout: "0s" });
    expect(cluster("tollgate_pods").circuit_breakers.per_host_thresholds).toEqual([{ max_connections: 514 }]);
  });

  it("keeps connections longer than the balancer and trusts its X-Forwarded-For", () => {
    const said = render(`${plain}timeouts: { keep_alive_ms: 5000 }\n`, "--behind-alb", "--alb-idle", "120");
    expect(said).toContain("note: timeouts.keep_alive_ms");
    expect(manager()).toMatchObject({ use_remote_address: true, xff_num_trusted_hops: 1 });
    expect(manager().common_http_protocol_options.idle_timeout).toBe("135s");
  });

  it("with --dynamic, writes limits with the script and targets with the clusters", () => {
    const names = ["envoy.yaml", "listeners.yaml", "routes.yaml", "clusters.yaml", "tollgate.lua"];
    const seen = (yaml: string) => {
      render(yaml, "--dynamic");
      return new Map(names.map((name) => [name, read(name)]));
    };
    const before = seen(sockets);
    const changed = (yaml: string) => {
      const after = seen(yaml);
      return names.filter((name) => before.get(name) !== after.get(name));
    };
    expect(changed(sockets)).toEqual([]);
    expect(changed(sockets.replace("guaranteed: 100", "guaranteed: 101"))).toEqual(["tollgate.lua"]);
    expect(changed(sockets.replace("9001", "9009"))).toContain("clusters.yaml");
    expect(changed(sockets.replace("9001", "9009"))).not.toContain("listeners.yaml");
    expect(changed(`${sockets}timeouts: { keep_alive_ms: 5000 }\n`)).toContain("listeners.yaml");
    const open = names.filter((name) => read(name).includes(SECRET) && statSync(join(dir, "out", name)).mode & 0o077);
    expect(open).toEqual([]);
  });

  it("calls several services by their names, without TLS", () => {
    render(plain, "--service", "tollgate-1:9145", "--service", "tollgate-2:9145");
    const { type, load_assignment } = cluster("tollgate_control");
    const hosts = load_assignment.endpoints[0].lb_endpoints.map(
      (each: { endpoint: { address: { socket_address: { address: string } } } }) =>
        each.endpoint.address.socket_address.address,
    );
    expect({ type, hosts }).toEqual({ type: "STRICT_DNS", hosts: ["tollgate-1", "tollgate-2"] });
  });

  it("has the admin interface on a Unix socket of its user by default", () => {
    render(plain);
    expect(bootstrap().admin.address).toEqual({ pipe: { path: join(dir, "out", "admin.sock"), mode: 0o600 } });
    render(plain, "--admin", "127.0.0.1:9901");
    expect(bootstrap().admin.address.socket_address).toEqual({ address: "127.0.0.1", port_value: 9901 });
  });

  it("warns that --mode rls refuses upgrades and that bodies without Content-Length are not limited", () => {
    const said = render(`${sockets}request_limits: { body_bytes: 10 }\n`, "--mode", "rls");
    expect(said).toMatch(/note: routes: .*upgrades are refused/);
    expect(said).toMatch(/note: request_limits.body_bytes: .*without one are not limited/);
  });

  it("needs no listener for Envoy, and says that its address has no effect", () => {
    const said = render(plain.replace(/envoy:.*\n/, ""), "--envoy-service", "127.0.0.1:1");
    expect(said).toContain("note: --envoy-service has no effect without --mode rls");
    expect(read("envoy.yaml")).not.toContain("tollgate_envoy");
  });

  it("gives each data plane its own token and no other", () => {
    const own = plain.replace(
      `plane_token: ${SECRET}`,
      "planes: { edge-1: [the-new-token-of-edge-1, the-old-token-of-edge-1], edge-2: the-token-of-edge-2 }",
    );
    render(own, "--node", "edge-1-a");
    const text = read("secret-token.yaml");
    expect(text).toContain("the-new-token-of-edge-1");
    expect(text).not.toMatch(/the-old-token|the-token-of-edge-2/);
    for (const node of [[], ["--node", "edge-3"]])
      expect(() => render(own, ...node)).toThrow("--node must name one of");
  });

  it.each([
    ["no token of data planes", plain.replace(SECRET, '""'), [], "control.plane_token is empty"],
    ["no routes", plain.slice(0, plain.indexOf("upstreams:")), [], "routes is empty"],
    ["no listener for Envoy", plain.replace(/envoy:.*\n/, ""), ["--mode", "rls"], "envoy.listen is not set"],
    ["a service without a port", plain, ["--service", "10.0.0.1"], "--service 10.0.0.1: must be host:port"],
    [
      "a service for Envoy without a port",
      plain,
      ["--mode", "rls", "--envoy-service", "a"],
      "--envoy-service a: must be host:port",
    ],
    [
      "a listener for Envoy with port 0",
      plain.replace("19146", "0"),
      ["--mode", "rls"],
      "envoy.listen 127.0.0.1:0: must be host:port, with a port above 0",
    ],
    ["a listen address without a port", plain, ["--listen", "localhost"], "--listen localhost: must be host:port"],
    ["an admin address without a port", plain, ["--admin", "127.0.0.1"], "--admin 127.0.0.1: must be host:port"],
    ["http and https in one upstream", plain.replace('"http://127', '"https://127'), [], "upstreams.backend.targets"],
    [
      "pods with host names",
      sockets.replace('"127.0.0.1:9101"', '"a.example:1"'),
      [],
      "upstreams.pods: a route with connections needs IP addresses",
    ],
    ["an unknown mode", plain, ["--mode", "wasm"], "--mode: unknown value"],
    ["the Lua filter of 0.2", plain, ["--mode", "lua"], "Leave out --mode and start Envoy with libtollgate.so"],
    [
      "a number of connections that is not an integer",
      plain,
      ["--max-connections", "many"],
      '--max-connections: "many" is not an integer',
    ],
    ["an option that requires --behind-alb", plain, ["--hops", "2"], "--hops requires --behind-alb"],
    ["a health path without a slash", plain, ["--behind-alb", "--health", "ok"], "--health must begin with a slash"],
    ["a certificate without its key", plain, ["--tls-certificate", "/x"], "must be used together"],
    ["a client key without its certificate", plain, ["--client-key", "/x"], "must be used together"],
    ["a path that is too long for a socket", plain, ["--admin", `/${"x".repeat(110)}`], "at most 107 bytes"],
  ])("reports the problem and writes nothing: %s", (_what, yaml, args, complaint) => {
    expect(() => render(yaml, ...args)).toThrow(complaint);
    expect(existsSync(join(dir, "out"))).toBe(false);
  });
});
