/** `tollgate serve` as a process: the demo, worker crashes, shutdown and start-up errors. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { type GatewayProcess, startGateway, startSmallBackend, workersOf } from "../../../support/gateway-process.js";
import { freePort } from "../../../support/ports.js";
import { tollgateProgram } from "../../../support/program.js";
import { startRedis } from "../../../support/redis-server.js";
import { waitFor } from "../../../support/wait-for.js";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function gateway(yaml: string): Promise<GatewayProcess> {
  const started = await startGateway(yaml);
  ends.push(() => started.stop());
  // The first worker responds before the others have started.
  await waitFor("all workers", () => started.output().includes("gateway listens"));
  return started;
}

async function backendYaml(): Promise<string> {
  const backend = await startSmallBackend();
  ends.push(() => backend.stop());
  return routesTo(backend.target);
}

const routesTo = (target: string) =>
  `upstreams: { backend: { targets: ["${target}"] } }\nroutes: [{ path: /, upstream: backend }]\n`;

async function statuses(url: string, app: string, count: number): Promise<number[]> {
  const found: number[] = [];
  for (let i = 0; i < count; i++) {
    // A new connection per request, so that every worker gets some.
    const response = await fetch(url, { headers: { "x-app-id": app, connection: "close" } });
    await response.arrayBuffer();
    found.push(response.status);
  }
  return found;
}

function refusesConnections(port: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(Number(port), "127.0.0.1", () => {
      socket.destroy();
      resolve(false);
    });
    socket.on("error", () => resolve(true));
  });
}

const ok = (found: number[]) => found.filter((status) => status === 200).length;

describe("tollgate serve without a file", () => {
  it("runs a demo with limits, and exits with code 0", async () => {
    const [port, controlPort] = [await freePort(), await freePort()];
    const args = ["serve", "--listen", `127.0.0.1:${port}`, "--control", `127.0.0.1:${controlPort}`, "--workers", "2"];
    const child = spawn(process.execPath, [...tollgateProgram(), ...args], { stdio: ["ignore", "pipe", "pipe"] });
    ends.push(async () => child.kill("SIGKILL"));
    let printed = "";
    for (const output of [child.stdout, child.stderr]) {
      output.on("data", (data) => {
        printed += data;
      });
    }
    await waitFor("the greeting", () => printed.includes("Press Ctrl-C to stop."));
    const url = `http://127.0.0.1:${port}`;
    const hello = await fetch(`${url}/api/hello`);
    expect([hello.status, hello.headers.get("x-ratelimit-cost")]).toEqual([200, "1"]);
    expect(await hello.json()).toEqual({ hello: "from behind the tollgate" });
    expect((await (await fetch(`${url}/api/big?bytes=100000`)).arrayBuffer()).byteLength).toBe(100_000);
    const echoed = await fetch(`${url}/api/echo`, { method: "POST", body: "back again" });
    expect(await echoed.text()).toBe("back again");
    const found = await statuses(`${url}/api/hello`, "demo", 20);
    expect(found).toContain(200);
    expect(found.at(-1)).toBe(429);
    expect((await fetch(`http://127.0.0.1:${controlPort}/health/ready`)).status).toBe(200);
    // Idle connections, one of them without a request, and a viewer of the dashboard.
    const idle = connect(port, "127.0.0.1");
    await once(idle, "connect");
    idle.on("error", () => undefined);
    const events = await fetch(`http://127.0.0.1:${controlPort}/dashboard/events`);
    expect(events.status).toBe(200);
    // npm and make forward the signal that the terminal has sent to all processes.
    child.kill("SIGINT");
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([0, null]);
    await events.text().catch(() => undefined);
    // All requests could finish, so no connection had to be closed by the end of the grace period.
    expect(printed).not.toMatch(/grace period|connections closed/);
  });
});

describe("several workers on the embedded store", () => {
  // Each request costs one. With a cost by size, the first request of each worker would be charged by an estimate.
  const priced = "profile: { based_on: iops, bandwidth: 0 }";
  // On a busy machine the store may be slow: nothing may be admitted without it.
  const limits = `apps: { default: { guaranteed: 0.001, burst: 50, on_store_failure: closed, ${priced} } }\nworkers: 3\n`;

  it("share one limit", async () => {
    const { url } = await gateway(`${limits}${await backendYaml()}`);
    let admitted = 0;
    // The rest may be on the leases of workers that get no more requests.
    await waitFor("most tokens to be spent", async () => {
      admitted += ok(await statuses(url, "any", 50));
      return admitted >= 35;
    });
    admitted += ok(await statuses(url, "any", 100));
    expect(admitted).toBeLessThanOrEqual(50);
  });

  it("are replaced when one is killed, and the limit holds", async () => {
    const started = await gateway(`${limits}${await backendYaml()}`);
    const before = await waitFor("three workers", () => {
      const pids = workersOf(started.pid);
      return pids.length === 3 && pids;
    });
    const first = ok(await statuses(started.url, "any", 20));
    process.kill(before[0] ?? 0, "SIGKILL");
    await waitFor("a replacement", () => workersOf(started.pid).filter((pid) => !before.includes(pid)).length === 1);
    await waitFor("the log entry about the crash", () => started.output().includes("worker crashed, restarting it"));
    const after = ok(await statuses(started.url, "any", 150));
    expect(first + after).toBeLessThanOrEqual(50);
    expect(workersOf(started.pid)).toHaveLength(3);
  });

  it("can be killed under load, and every client gets a response or an error", async () => {
    const plenty = "apps: { default: { guaranteed: 100000, burst: 100000 } }\nworkers: 3\n";
    const started = await gateway(`${plenty}${await backendYaml()}`);
    let stopped = false;
    const outcomes = new Map<string, number>();
    const count = (outcome: string) => outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    const client = async () => {
      while (!stopped) {
        const signal = AbortSignal.timeout(60_000);
        await fetch(started.url, { headers: { connection: "close" }, signal }).then(
          async (response) => count(`${response.status} ${await response.text()}`),
          (error: Error) => count(error.name),
        );
      }
    };
    const clients = Array.from({ length: 16 }, client);
    for (let kills = 0; kills < 3; kills++) {
      const all = await waitFor("three workers", () => {
        const pids = workersOf(started.pid);
        return pids.length === 3 && pids;
      });
      const answered = outcomes.get("200 ok") ?? 0;
      process.kill(all[0] ?? 0, "SIGKILL");
      await waitFor("responses of the other workers", () => (outcomes.get("200 ok") ?? 0) > answered + 100);
    }
    stopped = true;
    await Promise.all(clients);
    // A cut connection is a TypeError. A request without a response within 60 s would be a TimeoutError.
    expect([...outcomes.keys()].filter((outcome) => !["200 ok", "TypeError"].includes(outcome))).toEqual([]);
  });
});

describe("SIGTERM under load", () => {
  it("finishes running requests, accepts no more, returns the tokens to Redis, and exits with code 0", async () => {
    const redis = await startRedis();
    ends.push(() => redis.stop());
    const waiting: ServerResponse[] = [];
    const slow = createServer((_request, response) => void waiting.push(response));
    await new Promise<void>((resolve) => slow.listen(0, "127.0.0.1", resolve));
    ends.push(async () => slow.close());
    const { port } = slow.address() as AddressInfo;
    const started = await startGatewayBehind(
      `store: ${redis.url}\nworkers: 2\napps: { default: { guaranteed: 100, burst: 1000 } }\nnode_id: gw\n`,
      port,
      waiting,
    );
    const running = Array.from({ length: 10 }, () =>
      fetch(started.url, { headers: { connection: "close" } }).then(async (response) => ({
        status: response.status,
        text: await response.text(),
      })),
    );
    await waitFor("all requests to reach the backend", () => waiting.length === 10);
    started.kill("SIGTERM");
    await waitFor("it to stop listening", () => refusesConnections(new URL(started.url).port));
    for (const response of waiting.splice(0)) response.end("done");
    expect(await Promise.all(running)).toEqual(Array.from({ length: 10 }, () => ({ status: 200, text: "done" })));
    expect(await started.ended).toBe(0);
    const ledgers = (await redis.command("KEYS", "ratelimit:{cluster-01/0}:ledger:*")) as string[];
    // One per worker that got a request; the kernel divides them.
    expect(ledgers.length).toBeGreaterThan(0);
    for (const key of ledgers) expect(await redis.command("HMGET", key, "held", "closed")).toEqual(["0", "1"]);
  });

  it("exits within the grace period even if a backend never responds", async () => {
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    ends.push(async () => {
      silent.closeAllConnections();
      silent.close();
    });
    const { port } = silent.address() as AddressInfo;
    const yaml = "workers: 1\ntimeouts: { shutdown_ms: 2000, response_ms: 1000 }\nlease: { timeout_ms: 200 }\n";
    const started = await gateway(`${yaml}${routesTo(`127.0.0.1:${port}`)}`);
    const stuck = fetch(`${started.url}/stuck`).catch(() => undefined);
    const begun = performance.now();
    started.kill("SIGTERM");
    expect(await started.ended).toBe(0);
    expect(performance.now() - begun).toBeLessThan(20_000);
    await stuck;
  });

  /** Starts the gateway and responds to its readiness probe in place of the blocked backend. */
  async function startGatewayBehind(yaml: string, port: number, waiting: ServerResponse[]): Promise<GatewayProcess> {
    const answering = setInterval(() => waiting.splice(0).forEach((response) => void response.end("probe")), 5);
    try {
      return await gateway(`${yaml}${routesTo(`127.0.0.1:${port}`)}`);
    } finally {
      clearInterval(answering);
    }
  }
});

describe("tollgate serve does not start", () => {
  const run = (...args: string[]) => {
    const { status, stderr } = spawnSync(process.execPath, [...tollgateProgram(), "serve", ...args], {
      encoding: "utf8",
      timeout: 60_000,
    });
    return { status, stderr };
  };

  it.each(["listen", "control"])("when the port of --%s is in use, and reports it", async (name) => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    const { port } = taken.address() as AddressInfo;
    const addresses = { listen: "127.0.0.1:0", control: "127.0.0.1:0", [name]: `127.0.0.1:${port}` };
    const { status, stderr } = run("--listen", addresses.listen, "--control", addresses.control, "--workers", "2");
    taken.close();
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: `tollgate: ${name === "listen" ? "listen" : "control.listen"}: 127.0.0.1:${port} is already in use by another process\n`,
    });
  });

  it("with an invalid file, and lists its problems", () => {
    const { status, stderr } = run(
      "--config",
      new URL("../../../unit/config/bad/many-at-once.yaml", import.meta.url).pathname,
    );
    expect(status).toBe(1);
    expect(stderr).toContain("workers: must be a whole number from 1 to 256 (is 0)");
    expect(stderr).toContain("routes[0].upstream: is not one of upstreams");
  });

  it("with an invalid option", () => {
    expect(run("--workers", "0")).toMatchObject({ status: 2, stderr: expect.stringContaining("--workers") });
  });
});
