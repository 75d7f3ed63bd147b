/** The service images: what is in them, two containers that share a limit, and a drain under load. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { Agent, request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { fromRoot } from "../../build/paths.js";
import { waitFor } from "../support/wait-for.js";
import { answers, type Container, createNetwork, podman, runOnce, startContainer } from "./support/containers.js";
import { describeWith } from "./support/needs.js";
import { ALPINE, demoBackend, redisContainer, SERVICE, serviceContainer, tollgateYaml } from "./support/stack.js";

const { version } = JSON.parse(readFileSync(fromRoot("package.json"), "utf8")) as { version: string };

const images = { Debian: SERVICE, Alpine: ALPINE };
const bases = Object.keys(images);

for (const [base, image] of Object.entries(images))
  describeWith(["containers"], `the service image on ${base}`, () => testImage(image));

function testImage(name: string): void {
  it("runs as a numeric user without privileges, with a health check and labels", async () => {
    const image = JSON.parse(await podman("image", "inspect", name))[0];
    expect(image.Config).toMatchObject({
      User: "10001:10001",
      StopSignal: "SIGTERM",
      Entrypoint: ["docker-entrypoint.sh"],
      Cmd: ["serve"],
    });
    expect(image.Healthcheck.Test).toEqual(["CMD", "docker-entrypoint.sh", "health", "live"]);
    expect(image.Labels).toMatchObject({
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.licenses": "Apache-2.0",
    });
  });

  it("contains exactly the files of the npm package, the dependencies of the lock file, and no npm", async () => {
    const packed = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
      cwd: fromRoot("."),
      encoding: "utf8",
    });
    const expected = (JSON.parse(packed) as [{ files: { path: string }[] }])[0].files.map(({ path }) => path).sort();
    const find =
      "cd /opt/tollgate && find . -path ./node_modules -prune -o -type f -print && ls node_modules/.package-lock.json";
    const { output } = await runOnce(name, ["-c", `${find}; command -v npm npx corepack yarn`], ["--entrypoint", "sh"]);
    const found = output
      .trim()
      .split("\n")
      .map((line) => line.replace(/^\.\//, ""));
    expect(found.sort()).toEqual([...expected, "node_modules/.package-lock.json", "package-lock.json"].sort());
  });

  it.each([
    ["an invalid option", "lisen: 0.0.0.0:8080\n", "lisen: unknown option; did you mean listen?"],
    [
      "a secret that is missing",
      `control: { admin_token: "\${TOLLGATE_ADMIN_TOKEN}" }\n`,
      "TOLLGATE_ADMIN_TOKEN is not set",
    ],
  ])("refuses to start with %s, and names it", async (_, yaml, reason) => {
    const container = await startContainer({ image: name, files: { "/etc/tollgate/tollgate.yaml": yaml } });
    expect(await container.ended()).toBe(1);
    expect(await container.logs()).toContain(reason);
    await container.remove();
  });

  it("refuses to start without a configuration or with an empty secret file", async () => {
    expect(await runOnce(name, [])).toMatchObject({
      code: 1,
      output: expect.stringContaining("there is no configuration"),
    });
    const container = await startContainer({
      image: name,
      env: { REDIS_PASSWORD_FILE: "/run/secrets/redis" },
      files: { "/run/secrets/redis": "", "/etc/tollgate/tollgate.yaml": "" },
    });
    expect(await container.ended()).toBe(1);
    expect(await container.logs()).toContain("REDIS_PASSWORD_FILE: /run/secrets/redis is empty");
    await container.remove();
  });
}

describeWith(["containers"], "two service containers, one of each image", () => {
  const endings: (() => Promise<unknown>)[] = [];
  const services: Container[] = [];
  let backend: Container;

  beforeAll(async () => {
    const network = await createNetwork();
    endings.push(network.remove);
    const redis = await redisContainer(network.name);
    backend = await demoBackend(network.name);
    for (const image of Object.values(images))
      services.push(await serviceContainer(network.name, tollgateYaml(), image));
    for (const container of [redis, backend, ...services]) endings.unshift(container.remove);
    await Promise.all(services.map(({ address }) => answers(`http://${address}:9145/health/ready`)));
  });
  afterAll(async () => {
    for (const end of endings) await end();
  });

  it("share one limit through Redis: together they admit exactly the burst", async () => {
    const statuses: Record<number, number> = {};
    for (let i = 0; i < 100; i++) {
      const { statusCode, body } = await request(`http://${services[i % 2]!.address}:8080/`, {
        headers: { "x-api-key": "key-of-the-app-limited" },
      });
      await body.dump();
      statuses[statusCode] = (statuses[statusCode] ?? 0) + 1;
    }
    expect(statuses).toEqual({ 200: 40, 429: 60 });
  });

  it.each(bases)("run without root, capabilities and a writable file system: %s", async (base) => {
    const service = services[bases.indexOf(base)]!;
    expect(await service.exec("id", "-u")).toBe("10001");
    expect(
      await service.exec("sh", "-c", "grep -E '^Cap(Prm|Eff|Bnd)' /proc/1/status | awk '{ print $2 }' | sort -u"),
    ).toBe("0000000000000000");
    await expect(service.exec("touch", "/tmp/x")).rejects.toThrow(/Read-only file system/);
    expect(await service.exec("docker-entrypoint.sh", "health", "ready")).toContain("ready");
  });

  it.each(bases)("report by their HEALTHCHECK whether they respond: %s", async (base) => {
    const service = services[bases.indexOf(base)]!;
    expect(await service.isHealthy()).toBe(true);
    await podman("kill", "--signal", "STOP", service.name);
    expect(await service.isHealthy()).toBe(false);
    await podman("kill", "--signal", "CONT", service.name);
    expect(await service.isHealthy()).toBe(true);
  });

  it("drain on SIGTERM under load: no request fails while one of them leaves", async () => {
    const [leaving, staying] = services as [Container, Container];
    const agent = new Agent({ pipelining: 0, connect: { timeout: 2_000 } });
    const before = (await counts(backend)).requests;
    const done = { leaving: 0, staying: 0, failed: [] as string[] };
    let stopped = false;
    let inFlight = 0;
    /** Like a load balancer, it asks the next service if one accepts no connection, or closes it without a response. */
    async function send(): Promise<void> {
      inFlight++;
      const status = await getSlow(leaving, agent).finally(() => inFlight--);
      const answer = status ?? (await getSlow(staying, agent));
      if (answer !== 200) done.failed.push(String(answer));
      else done[status === undefined ? "staying" : "leaving"]++;
    }
    const clients = Array.from({ length: 20 }, async () => {
      while (!stopped) await send();
    });
    await waitFor("load", () => done.leaving >= 100 && inFlight >= 10);
    const atSignal = done.leaving;
    expect(await leaving.stop()).toBe(0);
    const moved = done.staying;
    await waitFor("the load to continue", () => done.staying >= moved + 100);
    stopped = true;
    await Promise.all(clients);
    await agent.close();
    expect(done.failed).toEqual([]);
    expect(done.leaving, "requests that finished after the signal").toBeGreaterThan(atSignal);
    // Nothing that had reached the backend was cut or sent twice.
    expect((await counts(backend)).requests - before).toBe(done.leaving + done.staying);
    expect(await leaving.logs()).toContain('"signal":"SIGTERM"');
  });
});

/** The status, or undefined if the connection was refused or closed before a response. */
async function getSlow({ address }: Container, dispatcher: Agent): Promise<number | undefined> {
  try {
    const { statusCode, body } = await request(`http://${address}:8080/slow?ms=300`, { dispatcher, reset: true });
    await body.dump();
    return statusCode;
  } catch (error) {
    const { code } = error as { code?: string };
    if (
      ["ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "UND_ERR_CONNECT_TIMEOUT", "UND_ERR_SOCKET"].includes(code ?? "")
    )
      return undefined;
    throw error;
  }
}

async function counts({ address }: Container): Promise<{ requests: number }> {
  const { body } = await request(`http://${address}:9000/counts`);
  return (await body.json()) as { requests: number };
}
