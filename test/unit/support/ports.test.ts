import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { afterEach, expect, it } from "vitest";
import { BUS_OFFSET, freePort, HIGHEST, LOWEST } from "../../support/ports.js";

const processes: ChildProcess[] = [];
afterEach(() => {
  for (const child of processes.splice(0)) child.kill("SIGKILL");
});

/** A process that takes ports, prints them, and keeps them until it is killed. */
async function takePorts(count: number): Promise<{ child: ChildProcess; ports: number[] }> {
  const program = `
    import { freePort } from ${JSON.stringify(new URL("../../support/ports.ts", import.meta.url).href)};
    const ports = [];
    for (let i = 0; i < ${count}; i++) ports.push(await freePort());
    console.log(JSON.stringify(ports));
    setInterval(() => {}, 1_000);`;
  const args = ["--import", "tsx", "--input-type=module", "-e", program];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  processes.push(child);
  const [line] = (await once(createInterface(child.stdout!), "line")) as [string];
  return { child, ports: JSON.parse(line) };
}

it("several processes that look for ports at the same time get different ones", async () => {
  const taken = await Promise.all(Array.from({ length: 6 }, () => takePorts(100)));
  const ports = taken.flatMap((each) => each.ports);
  expect(ports).toHaveLength(600);
  expect(new Set(ports).size).toBe(600);
});

it("nobody gets a port while its owner lives, and others get it after its owner was killed", async () => {
  const { child, ports } = await takePorts(5);
  for (const port of ports) expect(ports).not.toContain(await freePort(port));
  child.kill("SIGKILL");
  await once(child, "exit");
  // Another test run may be faster, but not for all of them.
  const again = await Promise.all(ports.map((port) => freePort(port)));
  expect(again.filter((port) => ports.includes(port))).not.toEqual([]);
});

it.each([0, BUS_OFFSET])("a port is not free while somebody listens %i above it", async (offset) => {
  const { child, ports } = await takePorts(1);
  const [port] = ports as [number];
  const server = createServer().listen(port + offset, "127.0.0.1");
  await once(server, "listening");
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(await freePort(port)).not.toBe(port);
  await new Promise((resolve) => server.close(resolve));
});

it("ports are below the ephemeral range, also those of a cluster bus", () => {
  expect(LOWEST + BUS_OFFSET).toBeGreaterThan(HIGHEST);
  expect(HIGHEST + BUS_OFFSET).toBeLessThan(32_768);
});
