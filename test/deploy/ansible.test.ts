/**
 * The Ansible playbooks with a local connection, in a mount namespace with its own /etc, /opt and /run. No systemd runs there: units are started
 * by a stand-in (support/systemctl.sh) and verified with systemd-analyze.
 */
import { execFile, execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageVersion } from "../../build/deploy/values.js";
import { fromRoot } from "../../build/paths.js";
import { freePort } from "../support/ports.js";
import { noTools } from "./support/tools.js";

const run = promisify(execFile);
const python = fromRoot(".cache/deploy/python-ansible");
const isRoot = process.getuid?.() === 0;
const folder = mkdtempSync(join(tmpdir(), "tollgate-ansible-"));
const state = join(folder, "state");
const current = packageVersion();
const next = current.replace(/\d+$/, (patch) => String(Number(patch) + 1));
/** A reference to an environment variable in a configuration. */
const variable = (name: string) => `\${${name}}`;
let control = 0;
let gateway = 0;

/** Runs a shell command in the namespace, with the systemctl of the tests. */
async function inside(command: string) {
  const script = `set -e
mount --bind ${folder}/etc /etc
mount --bind ${folder}/opt /opt
PATH=${folder}/bin:$PATH
${command}`;
  const env = {
    ...process.env,
    UNITS_STATE: state,
    PYTHONPATH: python,
    ANSIBLE_LOCALHOST_WARNING: "false",
    ANSIBLE_NOCOLOR: "1",
    ANSIBLE_LOCAL_TEMP: join(folder, "ansible"),
    ANSIBLE_REMOTE_TEMP: join(folder, "ansible"),
  };
  try {
    const { stdout, stderr } = await run("unshare", ["--mount", "sh", "-c", script], { env, cwd: folder });
    return { status: 0, output: stdout + stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { status: code, output: `${stdout}${stderr}` };
  }
}

function playbook(name: string, variables: Record<string, unknown> = {}) {
  const file = join(folder, "variables.json");
  const configuration = {
    listen: `127.0.0.1:${gateway}`,
    store: "embedded",
    control: {
      listen: `127.0.0.1:${control}`,
      admin_token: variable("TOLLGATE_ADMIN_TOKEN"),
      plane_token: variable("TOLLGATE_PLANE_TOKEN"),
    },
    workers: 1,
    apps: { default: { guaranteed: 1000, burst: 2000 } },
    upstreams: { http: { targets: ["http://127.0.0.1:9"] } },
    routes: [{ path: "/", upstream: "http" }],
  };
  const secrets = { TOLLGATE_ADMIN_TOKEN: "admin-token-of-the-test", TOLLGATE_PLANE_TOKEN: "plane-token-of-the-test" };
  writeFileSync(
    file,
    JSON.stringify({
      tollgate_package: join(folder, `tollgate-${current}.tgz`),
      tollgate_config: configuration,
      tollgate_secrets: secrets,
      ansible_python_interpreter: "/usr/bin/python3",
      ...variables,
    }),
  );
  return inside(
    `python3 ${python}/bin/ansible-playbook -i ${folder}/inventory.yml -e @${file} ${fromRoot(`deploy/ansible/${name}.yml`)}`,
  );
}

const changed = (output: string) => Number(/changed=(\d+)/.exec(output)?.[1] ?? Number.NaN);
const active = () => execFileSync("readlink", [join(folder, "opt/tollgate/current")], { encoding: "utf8" }).trim();
const starts = () => readFileSync(join(state, "calls"), "utf8").trim().split("\n").length;
async function isServing(): Promise<boolean> {
  return (await fetch(`http://127.0.0.1:${control}/health/ready`)).ok;
}

describe.skipIf(noTools || !isRoot || !existsSync(python))("the Ansible playbooks", () => {
  beforeAll(async () => {
    [control, gateway] = [await freePort(), await freePort()];
    for (const name of ["opt", "state", "bin", "ansible"]) mkdirSync(join(folder, name));
    execFileSync("cp", ["-a", "/etc", join(folder, "etc")]);
    cpSync(fromRoot("test/deploy/support/systemctl.sh"), join(folder, "bin/systemctl"));
    writeFileSync(
      join(folder, "inventory.yml"),
      "all: { children: { tollgate_services: { hosts: { localhost: { ansible_connection: local } } }, tollgate_nginx: {}, tollgate_envoy: {} } }\n",
    );
    // The package, and the same with the next version.
    execFileSync("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder], { cwd: fromRoot(".") });
    execFileSync("tar", ["-xzf", `tollgate-${current}.tgz`], { cwd: folder });
    const manifest = join(folder, "package/package.json");
    const description = JSON.parse(readFileSync(manifest, "utf8")) as object;
    writeFileSync(manifest, JSON.stringify({ ...description, version: next }));
    execFileSync("tar", ["-czf", `tollgate-${next}.tgz`, "package"], { cwd: folder });
  });
  afterAll(async () => {
    await inside("systemctl stop tollgate");
    rmSync(folder, { recursive: true, force: true });
  });

  it("deploy a version with its configuration, and the service is ready", async () => {
    const { status, output } = await playbook("deploy");
    expect(status, output).toBe(0);
    expect(active()).toMatch(new RegExp(`^/opt/tollgate/releases/${current}-`));
    expect(await isServing()).toBe(true);
  });

  it("change nothing when they run again", async () => {
    const before = starts();
    const { status, output } = await playbook("deploy");
    expect([status, changed(output)], output).toEqual([0, 0]);
    expect(starts()).toBe(before);
  });

  it("stop at an invalid configuration before anything changes", async () => {
    const before = { active: active(), starts: starts(), releases: readdirSync(join(folder, "opt/tollgate/releases")) };
    const { status, output } = await playbook("deploy", { tollgate_config: { listen: "127.0.0.1:1", workers: -3 } });
    expect(status).not.toBe(0);
    expect(output).toContain("workers");
    expect(changed(output), output).toBe(0);
    expect({
      active: active(),
      starts: starts(),
      releases: readdirSync(join(folder, "opt/tollgate/releases")),
    }).toEqual(before);
  });

  it("update to another version, and return to the one before", async () => {
    const before = active();
    const updated = await playbook("deploy", { tollgate_package: join(folder, `tollgate-${next}.tgz`) });
    expect(updated.status, updated.output).toBe(0);
    expect(active()).toMatch(new RegExp(`^/opt/tollgate/releases/${next}-`));
    expect(await isServing()).toBe(true);
    const back = await playbook("rollback");
    expect(back.status, back.output).toBe(0);
    expect(active()).toBe(before);
    expect(await isServing()).toBe(true);
  });

  it("restore the old release when the new one does not become healthy", async () => {
    const before = active();
    const { status, output } = await playbook("deploy", {
      tollgate_package: join(folder, `tollgate-${next}.tgz`),
      tollgate_control_url: "http://127.0.0.1:1",
      tollgate_health_retries: 1,
    });
    expect(status).not.toBe(0);
    expect(output).toContain("did not become healthy; the old release was restored");
    expect(active()).toBe(before);
  });

  it("write units that systemd accepts", async () => {
    const { status, output } = await inside("systemd-analyze verify --man=no /etc/systemd/system/tollgate.service");
    expect(status, output).toBe(0);
    expect(output).not.toContain("tollgate.service:");
  });
});
