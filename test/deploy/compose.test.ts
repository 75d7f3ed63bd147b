/** The Compose files: the stack for trials with the scenario of ten clients, and the one for production. */
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fromRoot } from "../../build/paths.js";
import { waitFor } from "../support/wait-for.js";
import { readCompose, type Stack, startCompose } from "./support/compose.js";
import { answers, podman } from "./support/containers.js";
import { describeWith } from "./support/needs.js";
import { demoBackend } from "./support/stack.js";

const planes = ["nginx-1", "nginx-2", "nginx-3", "envoy-1", "envoy-2"];

async function json<T>(url: string): Promise<T> {
  const { body } = await request(url);
  return (await body.json()) as T;
}

describe("the Compose files", () => {
  it("publish ports of the trial to this machine only", () => {
    const ports = Object.values(readCompose("docker-compose.yml").services).flatMap(({ ports = [] }) => ports);
    expect(ports.length).toBeGreaterThan(5);
    expect(ports.filter((port) => !port.startsWith("127.0.0.1:"))).toEqual([]);
  });

  it("publish in production only the listeners for clients, restart everything, and limit its resources", () => {
    const { services } = readCompose("docker-compose.prod.yml");
    const published = Object.entries(services).flatMap(([name, { ports = [] }]) =>
      ports.map((port) => `${name} ${port}`),
    );
    expect(published.map((each) => each.replace(/\$\{.*\}/, "…"))).toEqual(["envoy-1 …:8080", "envoy-2 …:8080"]);
    for (const [name, service] of Object.entries(services)) {
      expect(service, name).toMatchObject({
        restart: "always",
        read_only: true,
        cap_drop: ["ALL"],
        deploy: { resources: { limits: { cpus: expect.any(String), memory: expect.any(String) } } },
      });
    }
  });
});

describeWith(["containers", "tools", "envoy"], "docker-compose.yml", () => {
  let stack: Stack;
  const address = (service: string) => stack.address(service, "_tollgate");
  beforeAll(async () => {
    stack = await startCompose("docker-compose.yml");
    for (const service of ["tollgate-1", "tollgate-2"])
      await answers(`http://${await address(service)}:9145/health/ready`);
    for (const plane of planes) await answers(`http://${await address(plane)}:8080/`);
  });
  afterAll(() => stack?.stop());

  it("keeps everything running, and serves requests through services, nginx and Envoys", async () => {
    for (const service of ["tollgate-1", "tollgate-2", ...planes]) {
      const { statusCode, headers, body } = await request(`http://${await address(service)}:8080/hello`);
      expect([service, statusCode, await body.text()]).toEqual([service, 200, expect.stringContaining("hello from")]);
      expect(headers, service).toHaveProperty("x-ratelimit-remaining");
    }
    expect(await stack.ended()).toEqual([]);
  });

  it("admits exactly two of ten concurrent WebSocket clients per pod, through three nginx and two Envoys", async () => {
    const output = await stack.call("--profile", "clients", "run", "--rm", "-T", "clients");
    const last = output.trim().split("\n").at(-1)!;
    const { clients, open, perPod } = JSON.parse(last) as {
      clients: number;
      open: number;
      perPod: Record<string, number>;
    };
    expect({ clients, open, perPod: Object.values(perPod) }).toEqual({ clients: 10, open: 4, perPod: [2, 2] });
    expect(output.match(/ 429 LIMIT_EXCEEDED/g)).toHaveLength(6);
  });

  it("shares the limit of an app among all planes", async () => {
    const statuses: number[] = [];
    const start = performance.now();
    for (let i = 0; i < 60; i++) {
      const headers = { "x-app-id": "demo" };
      const { statusCode, body } = await request(`http://${await address(planes[i % 5]!)}:8080/`, { headers });
      await body.dump();
      statuses.push(statusCode);
    }
    const seconds = (performance.now() - start) / 1000;
    const admitted = statuses.filter((status) => status === 200).length;
    // A burst of 20 tokens and 10 per second; a request costs 2.
    expect(admitted).toBeGreaterThan(0);
    expect(admitted).toBeLessThanOrEqual((20 + 10 * seconds) / 2 + 1);
    expect(statuses.filter((status) => status === 429).length + admitted).toBe(60);
  });

  it("is scraped by Prometheus, which knows the Alertmanager", async () => {
    const url = `http://${await address("prometheus")}:9090/api/v1`;
    await waitFor("all targets", async () => {
      const { data } = await json<{ data: { activeTargets: { health: string; labels: { job: string } }[] } }>(
        `${url}/targets`,
      );
      const up = data.activeTargets.filter(({ health }) => health === "up").map(({ labels }) => labels.job);
      return (
        up.filter((job) => job === "tollgate").length === 2 && up.filter((job) => job === "tollgate-nginx").length === 3
      );
    });
    const { data } = await json<{ data: { activeAlertmanagers: unknown[] } }>(`${url}/alertmanagers`);
    expect(data.activeAlertmanagers).toHaveLength(1);
  });
});

describeWith(["containers", "tools", "envoy"], "docker-compose.prod.yml", () => {
  let stack: Stack;
  const endings: (() => Promise<unknown>)[] = [];
  const folder = mkdtempSync(join(tmpdir(), "tollgate-secrets-"));
  const redis = "redis-connection-tracker";
  const redisCli = (...args: string[]) =>
    stack.exec(redis, "redis-cli", "--tls", "--cacert", "/run/secrets/redis-ca", "-h", redis, ...args);
  const asTollgate = () => [
    "--user",
    "tollgate",
    "--pass",
    readFileSync(join(folder, "secrets/redis-password"), "utf8"),
    "--no-auth-warning",
  ];

  beforeAll(async () => {
    cpSync(fromRoot("deploy/compose/make-secrets.sh"), join(folder, "make-secrets.sh"));
    execFileSync(join(folder, "make-secrets.sh"));
    stack = await startCompose("docker-compose.prod.yml", join(folder, "secrets"));
    for (const alias of ["api", "websocket"]) {
      const backend = await demoBackend(`${stack.project}-backends`, alias, 8080);
      endings.push(backend.remove);
    }
    for (const envoy of ["envoy-1", "envoy-2"])
      await answers(`http://${await stack.address(envoy, "-backends")}:8080/`);
  });
  afterAll(async () => {
    for (const end of endings) await end();
    await stack?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it("creates secrets that only their owner can reach, and keeps them when it runs again", () => {
    const read = () => readFileSync(join(folder, "secrets/admin-token"), "utf8");
    const before = read();
    execFileSync(join(folder, "make-secrets.sh"));
    expect(read()).toBe(before);
    expect(statSync(join(folder, "secrets")).mode & 0o777).toBe(0o700);
  });

  it("serves requests through the Envoys, with the store behind TLS and a password", async () => {
    const { statusCode, headers, body } = await request(
      `http://${await stack.address("envoy-1", "-backends")}:8080/hello`,
    );
    expect([statusCode, await body.text()]).toEqual([200, expect.stringContaining("hello from")]);
    expect(headers).toHaveProperty("x-ratelimit-remaining");
    expect(await stack.exec("tollgate-1", "docker-entrypoint.sh", "health", "ready")).toContain("ready");
    expect(await stack.ended()).toEqual([]);
  });

  it("gives the user of Tollgate exactly what it needs: nothing was denied, and other keys and commands are", async () => {
    const denied = await redisCli(...asTollgate(), "SET", "other", "1").catch((error: Error) => error.message);
    expect(denied).toContain("NOPERM");
    expect(await redisCli(...asTollgate(), "FLUSHALL").catch((error: Error) => error.message)).toContain("NOPERM");
    expect(await redisCli("PING").catch((error: Error) => error.message)).toContain("NOAUTH");
    for (const service of ["tollgate-1", "tollgate-2"])
      expect(await stack.logs(service)).not.toMatch(/NOPERM|no permissions|may not/i);
  });

  it("keeps its data when Redis restarts", async () => {
    // Written by a function, which the append-only file has as a transaction.
    const granted = async () => {
      const [app] = (await redisCli(...asTollgate(), "--scan", "--pattern", "ratelimit:*:app:*")).split("\n");
      return Number(await redisCli(...asTollgate(), "HGET", app!, "granted"));
    };
    const before = await waitFor("tokens granted", async () => (await granted()) || undefined);
    await podman("restart", "--time", "30", `${stack.project}_${redis}_1`);
    expect(await waitFor("Redis", granted)).toBeGreaterThanOrEqual(before);
    expect(await stack.logs(redis)).not.toContain("NOPERM");
    await waitFor(
      "the services",
      async () => (await stack.exec("tollgate-1", "docker-entrypoint.sh", "health", "ready")) !== "",
    );
  });
});
