/** A log target that is full, closed or not read ends and delays nothing; lost lines are counted, and floods of lines limited. */
import { execFileSync, spawn } from "node:child_process";
import { closeSync, constants, mkdtempSync, openSync, readSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { ADMIN_TOKEN, PLANE_TOKEN, startGateway, workersOf } from "../../../support/gateway-process.js";
import { startBackend } from "../../../support/http-backend.js";
import { freePort } from "../../../support/ports.js";
import { tollgateProgram } from "../../../support/program.js";
import { waitFor } from "../../../support/wait-for.js";

const gatewayYaml = (target: string) => `
store: embedded
workers: 2
apps: { default: { guaranteed: 100, burst: 1000 }, small: { guaranteed: 0.001, burst: 1 } }
identity: { trusted_hops: [127.0.0.0/8] }
upstreams: { backend: { targets: ["${target}"] } }
routes: [{ path: /, upstream: backend }]
`;

async function backend(): Promise<string> {
  const started = await startBackend((_, response) => void response.end("hello"));
  onTestFinished(() => started.stop());
  return `http://127.0.0.1:${started.port}`;
}

/** A service whose standard output is `stdout`. */
async function serveTo(stdout: number) {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-log-"));
  const [port, controlPort] = [await freePort(), await freePort()];
  const file = join(dir, "tollgate.yaml");
  const control = `{ listen: "127.0.0.1:${controlPort}", admin_token: ${ADMIN_TOKEN}, plane_token: ${PLANE_TOKEN} }`;
  const head = `listen: 127.0.0.1:${port}\ncontrol: ${control}\n`;
  writeFileSync(file, head + gatewayYaml(await backend()));
  const child = spawn(process.execPath, [...tollgateProgram(), "serve", "--config", file], {
    stdio: ["ignore", stdout, "pipe"],
  });
  let errors = "";
  child.stderr?.on("data", (data) => (errors += data));
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  onTestFinished(async () => {
    if (child.exitCode === null) child.kill("SIGKILL");
    await ended;
    rmSync(dir, { recursive: true, force: true });
  });
  const [url, controlUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${controlPort}`];
  await waitFor("the service", async () => (await fetch(`${controlUrl}/health/ready`)).ok);
  const lost = async () => {
    const page = await (await fetch(`${controlUrl}/metrics`, { headers: { "X-Admin-Token": ADMIN_TOKEN } })).text();
    return Number(/^ratelimit_log_lines_lost_total(?:\{[^}]*\})? (\d+)/m.exec(page)?.[1] ?? Number.NaN);
  };
  const stop = async () => {
    child.kill("SIGTERM");
    return ended;
  };
  return { url, controlUrl, port, child, errors: () => errors, lost, stop };
}

type Served = Awaited<ReturnType<typeof serveTo>>;

/** Sends something that is no request. */
function sendNonsense(port: number): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.end("NONSENSE\r\n\r\n"));
    socket.resume();
    socket.on("error", () => undefined).on("close", () => resolve());
  });
}

/** Requests of all kinds that are logged, on all listeners; afterwards others are served and all processes are the same. */
async function expectService(served: Served, log: () => Promise<boolean>): Promise<void> {
  const workers = workersOf(served.child.pid ?? 0);
  expect(workers).toHaveLength(2);
  await waitFor("enough lines", async () => {
    for (let i = 0; i < 10; i++) {
      await sendNonsense(served.port);
      await fetch(served.url, { headers: { "X-App-Id": "small" } }).then((response) => response.arrayBuffer());
      await fetch(`${served.controlUrl}/admin/ratelimit/status`, { headers: { "X-Admin-Token": "wrong" } });
    }
    return log();
  });
  expect((await fetch(served.url)).status).toBe(200);
  expect((await fetch(`${served.controlUrl}/health/ready`)).status).toBe(200);
  expect(workersOf(served.child.pid ?? 0)).toEqual(workers);
  expect(served.errors()).toBe("");
}

describe("standard output that", () => {
  it("is a full disk ends nothing; lost lines are counted", async () => {
    const full = openSync("/dev/full", "w");
    const served = await serveTo(full);
    closeSync(full);
    await expectService(served, async () => (await served.lost()) > 30);
    expect(await served.stop()).toBe(0);
  });

  it("is a closed pipe ends nothing; lost lines are counted", async () => {
    const { read, write } = pipe();
    const served = await serveTo(write);
    closeSync(read);
    closeSync(write);
    await expectService(served, async () => (await served.lost()) > 30);
    expect(await served.stop()).toBe(0);
  });

  it("is a full pipe that nobody reads delays nothing, and shows what was lost when it is read again", async () => {
    const { read, write } = pipe();
    fill(read);
    const served = await serveTo(write);
    closeSync(write);
    await expectService(served, async () => true);
    // Drained: what waited in the buffer appears.
    let text = "";
    await waitFor("the lines that waited", () => {
      text += drain(read);
      return text.includes("gateway listens") && text.includes("request rejected");
    });
    fill(read);
    expect(await served.stop()).toBe(0);
    closeSync(read);
  });
});

/** A named pipe: `read` never blocks, `write` does, as in a shell. */
function pipe(): { read: number; write: number } {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-pipe-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const path = join(dir, "pipe");
  execFileSync("mkfifo", [path]);
  const read = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  return { read, write: openSync(path, constants.O_WRONLY) };
}

function untilFull(step: () => number): void {
  try {
    while (step() > 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
  }
}

function fill(fd: number): void {
  const page = Buffer.alloc(4096, "\n");
  untilFull(() => writeSync(fd, page));
  untilFull(() => writeSync(fd, "\n"));
}

function drain(fd: number): string {
  const page = Buffer.alloc(65_536);
  let text = "";
  untilFull(() => {
    const count = readSync(fd, page);
    text += page.toString("utf8", 0, count);
    return count;
  });
  return text;
}

describe("lines that clients cause", () => {
  it("are limited per kind and second, and the rest are counted", async () => {
    const gateway = await startGateway(gatewayYaml(await backend()));
    onTestFinished(() => gateway.stop());
    const FLOOD = 2_000;
    const port = Number(new URL(gateway.url).port);
    const started = performance.now();
    for (let i = 0; i < FLOOD; i += 50) {
      await Promise.all(Array.from({ length: 50 }, () => sendNonsense(port)));
    }
    const seconds = Math.ceil((performance.now() - started) / 1_000) + 1;
    const lines = () =>
      gateway
        .output()
        .split("\n")
        .filter((line) => line.startsWith("{"))
        .map((line) => JSON.parse(line));
    const rejected = () => lines().filter(({ msg }) => msg === "request rejected").length;
    const counted = () =>
      lines()
        .filter(({ kind }) => kind === "request rejected")
        .reduce((sum, { suppressed }) => sum + suppressed, 0);
    await waitFor("the counts of the rest", () => rejected() + counted() === FLOOD);
    // Two workers, ten lines per second each; a second of one worker can begin in the middle of one of the other.
    expect(rejected()).toBeLessThanOrEqual(2 * 10 * (seconds + 1));
  });
});
