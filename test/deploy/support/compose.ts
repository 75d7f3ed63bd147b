/** Runs a Compose file with podman-compose, on images of this machine and without published ports. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { parse } from "yaml";
import { fromRoot } from "../../../build/paths.js";
import { podman } from "./containers.js";

const run = promisify(execFile);

export interface ComposeService {
  image: string;
  ports?: string[];
  volumes?: string[];
  build?: unknown;
  restart?: string;
  [option: string]: unknown;
}

export interface ComposeFile {
  name: string;
  services: Record<string, ComposeService>;
  networks: Record<string, { name?: string }>;
  secrets?: Record<string, { file: string }>;
  [section: string]: unknown;
}

/** The file with its anchors and merge keys resolved. */
export function readCompose(file: string): ComposeFile {
  return parse(readFileSync(fromRoot(file), "utf8"), { merge: true }) as ComposeFile;
}

/** Stand-ins for images of other projects; see deploy/test/stand-ins.Dockerfile. There is none for Grafana. */
const standIns: Record<string, string> = {
  redis: "localhost/standin/redis",
  "prom/prometheus": "localhost/standin/prometheus",
  "prom/alertmanager": "localhost/standin/alertmanager",
};

/** @param secrets the folder with the secrets */
export async function startCompose(file: string, secrets?: string) {
  const compose = readCompose(file);
  const folder = mkdtempSync(join(tmpdir(), "tollgate-compose-"));
  const project = `tollgate-test-${process.pid}`;
  delete compose.services.grafana;
  for (const service of Object.values(compose.services)) {
    const [name = ""] = service.image.split(/[:@]/);
    const isOurs = name.includes("tollgate");
    service.image = isOurs ? `localhost/${name.split("/").at(-1)}:test` : (standIns[name] ?? service.image);
    delete service.build;
    delete service.ports;
    delete service.logging;
    // What ends early is a failure here.
    service.restart = "no";
    if (service.volumes !== undefined)
      service.volumes = service.volumes.map((volume) => volume.replace(/^\.\//, `${fromRoot(".")}/`));
  }
  for (const network of Object.values(compose.networks))
    if (network.name !== undefined) network.name = `${project}-backends`;
  for (const [name, secret] of Object.entries(compose.secrets ?? {})) {
    compose.secrets![name] = { file: join(secrets!, secret.file.split("/").at(-1)!) };
  }
  for (const key of Object.keys(compose)) if (key.startsWith("x-")) delete compose[key];
  const path = join(folder, "compose.yml");
  // JSON is YAML without differences between its versions.
  writeFileSync(path, JSON.stringify({ ...compose, name: project }));
  const call = async (...args: string[]) => {
    const tools = fromRoot(".cache/deploy/python-lint");
    const { stdout } = await run(
      join(tools, "bin/podman-compose"),
      ["--file", path, "--project-name", project, "--podman-run-args=--no-healthcheck", ...args],
      { env: { ...process.env, PYTHONPATH: tools }, maxBuffer: 64 * 1024 * 1024, timeout: 240_000 },
    );
    return stdout;
  };
  await call("up", "--detach", "--no-build");
  const container = (service: string) => `${project}_${service}_1`;
  return {
    project,
    call,
    exec: (service: string, ...args: string[]) => podman("exec", container(service), ...args),
    logs: async (service: string) => {
      const { stdout, stderr } = await run("podman", ["logs", container(service)], { maxBuffer: 64 * 1024 * 1024 });
      return stdout + stderr;
    },
    /** Services that have ended. */
    async ended(): Promise<string[]> {
      const list = await podman(
        "ps",
        "--all",
        "--filter",
        `label=io.podman.compose.project=${project}`,
        "--format",
        "{{.Names}} {{.Status}}",
      );
      return list.split("\n").filter((line) => !line.includes(" Up "));
    },
    /** The address of a container, reachable from this process. */
    async address(service: string, network: string): Promise<string> {
      const networks = JSON.parse(
        await podman("inspect", "--format", "{{json .NetworkSettings.Networks}}", container(service)),
      );
      const name = Object.keys(networks).find((each) => each.endsWith(network))!;
      return networks[name].IPAddress as string;
    },
    async stop(): Promise<void> {
      await call("down", "--volumes", "--timeout", "1").catch(() => undefined);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export type Stack = Awaited<ReturnType<typeof startCompose>>;
