/** The nginx and Envoy images: they serve traffic through the services, follow changes, and stop gracefully. */
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connectSocket } from "../support/socket-clients.js";
import { waitFor } from "../support/wait-for.js";
import { answers, type Container, createNetwork, startContainer } from "./support/containers.js";
import { describeWith, type Need } from "./support/needs.js";
import {
  demoBackend,
  ENVOY,
  NGINX,
  PLANE_TOKEN,
  redisContainer,
  serviceContainer,
  tollgateYaml,
} from "./support/stack.js";

const sockets = `  - { path: /ws/, upstream: pods, connections: { max_per_pod: 2, max_total: 0, rate_per_second: 0, lease_s: 5 } }`;
const pods = `  pods: { dns: { name: pods, port: 9000, interval_ms: 500 } }\n`;
const yaml = tollgateYaml(sockets).replace("routes:\n", `${pods}routes:\n`);
const config = "/etc/tollgate/tollgate.yaml";

const planes: { name: string; image: string; needed: Need[] }[] = [
  { name: "nginx", image: NGINX, needed: ["containers"] },
  { name: "envoy", image: ENVOY, needed: ["containers", "envoy"] },
];

function planeContainer(image: string, network: string, text = yaml): Promise<Container> {
  return startContainer({
    image,
    network,
    files: { [config]: text, "/run/secrets/plane": PLANE_TOKEN },
    env: {
      TOLLGATE_PLANE_TOKEN_FILE: "/run/secrets/plane",
      TOLLGATE_SERVICES: "tollgate:9145",
      TOLLGATE_WATCH_SECONDS: "1",
    },
    writable: ["/var/lib/tollgate"],
  });
}

for (const plane of planes) describeWith(plane.needed, `the ${plane.name} image`, () => testImage(plane));

function testImage({ name, image }: (typeof planes)[number]): void {
  const endings: (() => Promise<unknown>)[] = [];
  const started: Container[] = [];
  let network: string;

  beforeAll(async () => {
    const created = await createNetwork();
    network = created.name;
    endings.push(created.remove);
    const add = async (container: Promise<Container>) => {
      const { remove } = await container;
      endings.unshift(remove);
      return container;
    };
    await add(redisContainer(network));
    await add(demoBackend(network));
    await add(demoBackend(network, "pods"));
    await add(serviceContainer(network, yaml));
    for (let i = 0; i < 2; i++) started.push(await add(planeContainer(image, network)));
    await Promise.all(started.map(({ address }) => answers(`http://${address}:8080/`)));
  });
  afterAll(async () => {
    for (const end of endings) await end();
  });

  it("serves traffic without root on a read-only root file system, and is healthy", async () => {
    const [plane] = started as [Container];
    const { statusCode, headers, body } = await request(`http://${plane.address}:8080/`);
    expect({ statusCode, text: await body.text() }).toEqual({
      statusCode: 200,
      text: expect.stringContaining("hello from"),
    });
    expect(headers).toHaveProperty("x-ratelimit-limit");
    expect(await plane.exec("id", "-u")).toBe("10001");
    await expect(plane.exec("touch", "/tmp/x")).rejects.toThrow(/Read-only file system/);
    expect(await plane.isHealthy()).toBe(true);
    await plane.exec("docker-entrypoint.sh", "health", "ready");
  });

  it("shares a limit with its twin: together they admit exactly the burst", async () => {
    const statuses: number[] = [];
    for (let i = 0; i < 100; i++) {
      const headers = { "x-api-key": "key-of-the-app-limited" };
      const { statusCode, body } = await request(`http://${started[i % 2]!.address}:8080/`, { headers });
      await body.dump();
      statuses.push(statusCode);
    }
    expect(statuses.filter((status) => status === 200)).toHaveLength(40);
    expect(statuses.filter((status) => status === 429)).toHaveLength(60);
  });

  it("admits two WebSockets per pod, and uses a pod that is added", async () => {
    const url = (i: number) => `ws://${started[i % 2]!.address}:8080/ws/`;
    const clients = Array.from({ length: 10 }, (_, i) => connectSocket(url(i)));
    const outcomes = await Promise.all(clients.map(({ outcome }) => outcome));
    expect(outcomes.filter(({ open }) => open)).toHaveLength(2);
    expect(outcomes.filter((one) => !one.open && one.status === 429)).toHaveLength(8);
    const pod = await demoBackend(network, "pods");
    endings.unshift(pod.remove);
    const more = await waitFor("two more on the new pod", async () => {
      const client = connectSocket(url(Math.floor(Math.random() * 2)));
      if (!(await client.outcome).open) return false;
      clients.push(client);
      return clients.filter(({ socket }) => socket.readyState === socket.OPEN).length === 4;
    });
    expect(more).toBe(true);
    expect(await connectSocket(url(0)).outcome).toMatchObject({ open: false, status: 429 });
    expect((await connectSocket(url(1)).outcome).open).toBe(false);
    for (const { socket } of clients) socket.terminate();
  });

  it("applies a changed configuration, and ignores an invalid one", async () => {
    const [plane] = started as [Container];
    plane.rewrite(config, yaml.replace("guaranteed: 1000000, burst: 1000000", "guaranteed: -1"));
    await waitFor("the rejection", async () => (await plane.logs()).includes("the change was not applied"));
    expect(await plane.logs()).toContain("apps.default.guaranteed");
    const { statusCode, body } = await request(`http://${plane.address}:8080/`);
    await body.dump();
    expect(statusCode).toBe(200);
    plane.rewrite(config, `${yaml}headers: { x_ratelimit: false }\n`);
    await waitFor("responses without these headers", async () => {
      const answer = await request(`http://${plane.address}:8080/`);
      await answer.body.dump();
      return answer.headers["x-ratelimit-limit"] === undefined && answer.statusCode === 200;
    });
  });

  it("refuses to start with an invalid configuration, and names the option", async () => {
    const plane = await planeContainer(image, network, `lisen: 0.0.0.0:8080\n${yaml}`);
    await waitFor("the message", async () => (await plane.logs()).includes("lisen: unknown option"));
    await plane.remove();
  });

  it("finishes a running request when it is stopped", async () => {
    const [, plane] = started as [Container, Container];
    const answer = request(`http://${plane.address}:8080/slow?ms=2000`);
    const other = request(`http://${plane.address}:8080/slow?ms=1`);
    await (await other).body.dump();
    if (name === "envoy") await plane.exec("env", "DRAIN_SECONDS=4", "docker-entrypoint.sh", "drain");
    expect(await plane.stop()).toBe(0);
    expect((await answer).statusCode).toBe(200);
  });
}
