/** Containers for tests, run with podman. `make test-deploy` sets up its storage and configuration (deploy/test/engine.sh). */
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { waitFor } from "../../support/wait-for.js";

const run = promisify(execFile);

/** Health checks run only when a test asks for one: podman would need systemd to repeat them. */
const env = { ...process.env, DISABLE_HC_SYSTEMD: "true" };

export async function podman(...args: string[]): Promise<string> {
  if (process.env.CONTAINERS_STORAGE_CONF === undefined) throw new Error("run these tests with make test-deploy");
  const { stdout } = await run("podman", args, { env, maxBuffer: 64 * 1024 * 1024, timeout: 240_000 });
  return stdout.trim();
}

export interface ContainerOptions {
  image: string;
  network?: string;
  /** Alias on the network, besides the container's name. */
  alias?: string;
  env?: Record<string, string>;
  /** Path in the container → content. Read-only. */
  files?: Record<string, string>;
  /** Paths in the container that are writable. */
  writable?: string[];
  /** Further options of `podman run`. */
  options?: string[];
  command?: string[];
}

export type Container = Awaited<ReturnType<typeof startContainer>>;

let count = 0;

/** Runs a container as the charts do: without privileges, with a read-only root file system. */
export async function startContainer(options: ContainerOptions) {
  const { image, network, alias, env: variables = {}, files = {}, writable = [], command = [] } = options;
  const name = `tollgate-test-${process.pid}-${++count}`;
  const folder = mkdtempSync(join(tmpdir(), "tollgate-container-"));
  const paths = Object.entries(files).map(([path, content], i) => {
    const file = join(folder, String(i));
    writeFileSync(file, content, { mode: 0o644 });
    return [path, file] as const;
  });
  await podman(
    ...["run", "--detach", "--name", name, "--pull=never"],
    ...["--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges"],
    ...(network === undefined ? [] : ["--network", network, "--dns", await nameServer(network)]),
    ...(alias === undefined ? [] : ["--network-alias", alias]),
    ...Object.entries(variables).flatMap(([key, value]) => ["--env", `${key}=${value}`]),
    ...paths.flatMap(([path, file]) => ["--volume", `${file}:${path}:ro`]),
    ...writable.flatMap((path) => ["--tmpfs", `${path}:rw,mode=1777`]),
    ...(options.options ?? []),
    image,
    ...command,
  );
  const inspect = async (format: string) => podman("inspect", "--format", format, name);
  const address =
    network === undefined ? "" : await inspect(`{{(index .NetworkSettings.Networks "${network}").IPAddress}}`);
  return {
    name,
    address,
    inspect,
    /** Replaces the content of a file that was given to the container. */
    rewrite(path: string, content: string): void {
      writeFileSync(paths.find(([each]) => each === path)![1], content);
    },
    exec: (...args: string[]) => podman("exec", name, ...args),
    /** Runs the HEALTHCHECK of the image. */
    isHealthy: () =>
      podman("healthcheck", "run", name).then(
        () => true,
        () => false,
      ),
    /** Standard output and error. */
    async logs(): Promise<string> {
      const { stdout, stderr } = await run("podman", ["logs", name], { maxBuffer: 64 * 1024 * 1024 });
      return stdout + stderr;
    },
    /** Sends the stop signal of the image and waits. Returns the exit code. */
    async stop(withinS = 60): Promise<number> {
      await podman("stop", "--time", String(withinS), name);
      return Number(await inspect("{{.State.ExitCode}}"));
    },
    /** Waits until it has ended by itself, and returns the exit code. */
    async ended(): Promise<number> {
      return Number(await podman("wait", name));
    },
    async remove(): Promise<void> {
      await podman("rm", "--force", "--time", "0", name);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * The only name server that a container gets, as with Docker and Kubernetes. podman adds those of the machine, which do not know the
 * containers; musl asks all at once and takes the first answer, so sometimes it would not find a container.
 */
function nameServer(network: string): Promise<string> {
  return podman("network", "inspect", "--format", "{{(index .Subnets 0).Gateway}}", network);
}

/** A bridge network whose containers find each other by name and are reachable from this process by address. */
export async function createNetwork() {
  const name = `tollgate-test-${process.pid}-${++count}`;
  await podman("network", "create", name);
  return { name, remove: () => podman("network", "rm", "--force", name) };
}

/** Runs a container to its end and returns what it printed. */
export async function runOnce(image: string, command: string[], options: string[] = []) {
  return new Promise<{ code: number; output: string }>((resolve, reject) => {
    const child = spawn("podman", ["run", "--rm", "--no-healthcheck", "--pull=never", ...options, image, ...command]);
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += String(chunk)));
    child.once("error", reject);
    child.once("close", (code) => resolve({ code: code ?? -1, output }));
  });
}

/** Waits until an HTTP server answers with success. */
export async function answers(url: string): Promise<void> {
  await waitFor(url, async () => (await fetch(url, { signal: AbortSignal.timeout(5_000) })).ok, { everyMs: 200 });
}
