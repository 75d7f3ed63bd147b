/** The Ansible playbooks with a local connection, on three hosts that are simulated here (support/ansible-hosts.ts). */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { packageVersion } from "../../build/deploy/values.js";
import { fromRoot } from "../../build/paths.js";
import { moduleFolder } from "../support/find-envoy.js";
import { freePort } from "../support/ports.js";
import { type Component, components, createHosts, type Hosts } from "./support/ansible-hosts.js";
import { describeWith } from "./support/needs.js";

const current = packageVersion();
const next = current.replace(/\d+$/, (patch) => String(Number(patch) + 1));
/** A reference to an environment variable in a configuration. */
const variable = (name: string) => `\${${name}}`;
const secrets = { TOLLGATE_ADMIN_TOKEN: "admin-token-of-the-test", TOLLGATE_PLANE_TOKEN: "plane-token-of-the-test" };
const units = { service: "tollgate", nginx: "tollgate-nginx", envoy: "tollgate-envoy" };
const none = { service: 0, nginx: 0, envoy: 0 };

const ports: Record<string, number> = {};
let backend: Server;
let hosts: Hosts;

function configuration(component: Component) {
  return {
    listen: `127.0.0.1:${ports[component]}`,
    store: "embedded",
    control: {
      listen: `127.0.0.1:${ports.control}`,
      admin_token: variable("TOLLGATE_ADMIN_TOKEN"),
      plane_token: variable("TOLLGATE_PLANE_TOKEN"),
    },
    workers: 1,
    apps: { default: { guaranteed: 1000, burst: "{{ burst_of_the_test | default(2000) }}" } },
    upstreams: { http: { targets: [`http://127.0.0.1:${ports.backend}`] } },
    routes: [{ path: "/", upstream: "http" }],
  };
}

const archive = (version: string) => join(hosts.folder, `tollgate-${version}.tgz`);
const deploy = (extra: Record<string, unknown> = {}) =>
  hosts.playbook("deploy", {
    tollgate_package: archive(current),
    tollgate_envoy_module: join(moduleFolder(), "libtollgate.so"),
    ...extra,
  });

/** The limit that each component announces; NaN if it does not serve. */
async function limits(): Promise<number[]> {
  return Promise.all(
    components.map(async (name) => {
      const response = await fetch(`http://127.0.0.1:${ports[name]}/`).catch(() => undefined);
      return response?.ok ? Number(response.headers.get("x-ratelimit-limit")) : Number.NaN;
    }),
  );
}

describeWith(["tools", "mount namespaces", "envoy"], "the Ansible playbooks", () => {
  beforeAll(async () => {
    for (const name of ["service", "nginx", "envoy", "control", "status"]) ports[name] = await freePort();
    backend = createServer((request, response) => {
      response.statusCode = request.url === "/" ? 200 : 404;
      response.end("hello");
    });
    await new Promise<void>((resolve) => backend.listen(0, "127.0.0.1", resolve));
    ports.backend = (backend.address() as AddressInfo).port;
    hosts = createHosts((component) => ({
      tollgate_config: configuration(component),
      tollgate_secrets: secrets,
      tollgate_nginx_status: `127.0.0.1:${ports.status}`,
      tollgate_drain_seconds: 0,
    }));
    // The package, and the same with the next version.
    const { folder } = hosts;
    execFileSync("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder], { cwd: fromRoot(".") });
    execFileSync("tar", ["-xzf", archive(current)], { cwd: folder });
    const manifest = join(folder, "package/package.json");
    const description = JSON.parse(readFileSync(manifest, "utf8")) as object;
    writeFileSync(manifest, JSON.stringify({ ...description, version: next }));
    execFileSync("tar", ["-czf", archive(next), "package"], { cwd: folder });
  });
  afterAll(async () => {
    await hosts?.remove();
    backend?.close();
  });

  it("deploy a version with its configuration: service, nginx and Envoy serve requests without root", async () => {
    const { status, output } = await deploy();
    expect(status, output).toBe(0);
    for (const state of hosts.state()) {
      expect(state.current).toMatch(new RegExp(`^/opt/tollgate/releases/${current}-`));
      expect(state.starts).toBe(1);
    }
    expect(await limits()).toEqual([2000, 2000, 2000]);
    for (const name of components) {
      const found = await hosts.inside(name, `stat -c %U /proc/$(cat $UNITS_STATE/${units[name]}.pid)`);
      expect(found.output.trim(), name).toBe("tollgate");
    }
  });

  it("change nothing when they run again", async () => {
    const before = hosts.state();
    const { status, output, changed } = await deploy();
    expect([status, changed], output).toEqual([0, none]);
    expect(hosts.state()).toEqual(before);
  });

  it("keep the admin token from planes, and the token of the planes from other users", async () => {
    for (const plane of ["nginx", "envoy"] as const) {
      const found = await hosts.inside(plane, `grep -rl ${secrets.TOLLGATE_ADMIN_TOKEN} /etc /opt/tollgate/releases`);
      expect(found.output).toBe("");
      const readable = await hosts.inside(
        plane,
        `grep -rlZ ${secrets.TOLLGATE_PLANE_TOKEN} /opt/tollgate/releases/ | xargs -0 stat -c '%a %U:%G' | sort -u`,
      );
      expect(readable.output).toBe("640 root:tollgate\n");
    }
  });

  it.each<[string, Record<string, unknown>, string]>([
    ["Tollgate", { tollgate_config: { listen: "127.0.0.1:1", workers: -3 } }, "workers"],
    [
      "nginx",
      { tollgate_render_arguments: ["--tls-certificate", "/no/such.crt", "--tls-key", "/no/such.key"] },
      "/no/such.crt",
    ],
  ])("stop at a configuration that is invalid for %s before anything changes", async (_, extra, reason) => {
    const before = hosts.state();
    const { status, output, changed } = await deploy(extra);
    expect(status).not.toBe(0);
    expect(output).toContain(reason);
    // The service does not render, so its release may have been prepared, but nothing was activated.
    expect({ ...changed, service: 0 }, output).toEqual(none);
    expect(hosts.state()).toEqual(before);
    expect(await limits()).toEqual([2000, 2000, 2000]);
  });

  it("update to another version and configuration, and return to the ones before", async () => {
    const before = hosts.state().map((state) => state.current);
    const updated = await deploy({ tollgate_package: archive(next), burst_of_the_test: 3000 });
    expect(updated.status, updated.output).toBe(0);
    for (const state of hosts.state()) expect(state.current).toContain(`/opt/tollgate/releases/${next}-`);
    expect(await limits()).toEqual([3000, 3000, 3000]);
    const back = await hosts.playbook("rollback", {});
    expect(back.status, back.output).toBe(0);
    expect(hosts.state().map((state) => state.current)).toEqual(before);
    expect(await limits()).toEqual([2000, 2000, 2000]);
  });

  it.each<[Component, () => Record<string, unknown>]>([
    ["service", () => ({ tollgate_package: archive(next), tollgate_control_url: "http://127.0.0.1:1" })],
    // nginx cannot start: its port is in use.
    ["nginx", () => ({ tollgate_nginx_status: `127.0.0.1:${ports.backend}` })],
  ])("restore the old release when the new one of %s does not become healthy, and stop", async (failing, extra) => {
    const before = hosts.state();
    const retries = `{{ 1 if inventory_hostname == '${failing}' else 30 }}`;
    const { status, output } = await deploy({ ...extra(), tollgate_health_retries: retries });
    expect(status).not.toBe(0);
    expect(output).toContain("did not become healthy; the old release was restored");
    const after = hosts.state();
    expect(after.map((state) => state.current)).toEqual(before.map((state) => state.current));
    const restarted = after.filter(({ starts }, i) => starts !== before[i]!.starts).map(({ name }) => name);
    expect(restarted).toEqual([failing]);
  });

  it("give a changed token of the planes to the service and to the planes", async () => {
    const token = "another-plane-token-of-the-test";
    const { status, output } = await deploy({ tollgate_secrets: { ...secrets, TOLLGATE_PLANE_TOKEN: token } });
    expect(status, output).toBe(0);
    for (const name of components) {
      const folder = name === "service" ? "/etc/tollgate" : "/opt/tollgate/current/";
      const found = await hosts.inside(name, `grep -rl ${token} ${folder}`);
      expect(found.status, `${name}: ${found.output}`).toBe(0);
    }
    expect(await limits()).toEqual([2000, 2000, 2000]);
  });

  it("write hardened units that systemd accepts", async () => {
    for (const name of components) {
      const path = `/etc/systemd/system/${units[name]}.service`;
      const verified = await hosts.inside(name, `systemd-analyze verify --man=no ${path}`);
      expect(verified.status, verified.output).toBe(0);
      expect(verified.output).not.toContain(`${units[name]}.service:`);
      // 0 is no exposure, 10 is a unit without restrictions: 9.6. The threshold is 10 times that.
      const security = await hosts.inside(name, `systemd-analyze security --offline=yes --threshold=20 ${path}`);
      expect(security.status, security.output).toBe(0);
    }
  });
});
