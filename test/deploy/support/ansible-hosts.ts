/**
 * Three hosts for the Ansible playbooks, all on this machine: mount namespaces with their own /etc, /opt and /run (enter-host.sh). No systemd
 * runs there: units are started by a stand-in (systemctl.sh).
 */
import { execFile, execFileSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { fromRoot } from "../../../build/paths.js";
import { envoyBinary } from "../../support/envoy-binary.js";

const run = promisify(execFile);
const ANSIBLE = fromRoot(".cache/deploy/python-ansible");
export const components = ["service", "nginx", "envoy"] as const;
export type Component = (typeof components)[number];
const groups = { service: "tollgate_services", nginx: "tollgate_nginx", envoy: "tollgate_envoy" };

export type Hosts = Awaited<ReturnType<typeof createHosts>>;

/** @param variables of each host */
export function createHosts(variables: (component: Component) => Record<string, unknown>) {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-ansible-"));
  const enter = fromRoot("test/deploy/support/enter-host.sh");
  for (const name of components) {
    for (const part of ["opt/bin", "run", "state"]) mkdirSync(join(folder, name, part), { recursive: true });
    execFileSync("cp", ["-a", "/etc", join(folder, name, "etc")]);
    // May be a link to /run.
    rmSync(join(folder, name, "etc/resolv.conf"));
    cpSync(realpathSync("/etc/resolv.conf"), join(folder, name, "etc/resolv.conf"));
    cpSync(fromRoot("test/deploy/support/systemctl.sh"), join(folder, name, "opt/bin/systemctl"));
    writeFileSync(join(folder, name, "opt/bin/envoy"), "", { mode: 0o755 });
    writeFileSync(join(folder, name, "state/calls"), "");
  }
  const host = (name: Component) => ({
    ansible_connection: "local",
    ansible_python_interpreter: "/usr/bin/python3",
    ansible_become_exe: `${enter} ${join(folder, name)}`,
    ...variables(name),
  });
  const children = Object.fromEntries(components.map((name) => [groups[name], { hosts: { [name]: host(name) } }]));
  writeFileSync(join(folder, "inventory.json"), JSON.stringify({ all: { children } }));
  const env = {
    ...process.env,
    ENVOY: envoyBinary(),
    PYTHONPATH: ANSIBLE,
    ANSIBLE_NOCOLOR: "1",
    ANSIBLE_PIPELINING: "1",
    ANSIBLE_BECOME_ALLOW_SAME_USER: "1",
    ANSIBLE_HOME: join(folder, "ansible"),
  };
  const call = async (file: string, args: string[]) => {
    try {
      const { stdout, stderr } = await run(file, args, { env, cwd: folder, maxBuffer: 16 * 1024 * 1024 });
      return { status: 0, output: stdout + stderr };
    } catch (error) {
      const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
      return { status: code, output: `${stdout}${stderr}` };
    }
  };
  const inside = (name: Component, command: string) => call(enter, [join(folder, name), "/bin/sh", "-c", command]);

  return {
    folder,
    inside,
    /** Runs a playbook. `changed` has the number of changes of each host. */
    async playbook(name: "deploy" | "rollback", extra: Record<string, unknown>) {
      const file = join(folder, "extra.json");
      writeFileSync(file, JSON.stringify(extra));
      const book = fromRoot(`deploy/ansible/${name}.yml`);
      const args = [`${ANSIBLE}/bin/ansible-playbook`, "-i", join(folder, "inventory.json"), "-e", `@${file}`, book];
      const { status, output } = await call("python3", args);
      const counts = output.matchAll(/^(\w+) +: ok=\d+ +changed=(\d+)/gm);
      return { status, output, changed: Object.fromEntries([...counts].map(([, host, n]) => [host, Number(n)])) };
    },
    /** What must not change if an update is refused. */
    state: () =>
      components.map((name) => ({
        name,
        current: readlinkSync(join(folder, name, "opt/tollgate/current")),
        releases: readdirSync(join(folder, name, "opt/tollgate/releases")).sort(),
        starts: readFileSync(join(folder, name, "state/calls"), "utf8").split("\n").length - 1,
      })),
    async remove(): Promise<void> {
      await Promise.all(
        components.map((name) => inside(name, `systemctl stop tollgate${name === "service" ? "" : `-${name}`}`)),
      );
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
