/** A worker that was stopped is reported and replaced. Workers whose primary is gone finish and exit. */
import { expect, it, onTestFinished } from "vitest";
import { ADMIN_TOKEN, startGateway, workersOf } from "../../../support/gateway-process.js";
import { waitFor } from "../../../support/wait-for.js";

const yaml = `
store: embedded
workers: 2
timeouts: { shutdown_ms: 2000 }
upstreams: { backend: { targets: ["http://127.0.0.1:9"] } }
routes: [{ path: /, upstream: backend }]
`;

const isGone = (pid: number) => {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
};

it("a worker stopped by SIGSTOP is reported in health, log and metrics, and replaced", async () => {
  const gateway = await startGateway(yaml);
  onTestFinished(() => gateway.stop());
  const health = async () => {
    const reply = await fetch(`${gateway.controlUrl}/health/deep`);
    return (await reply.json()) as { components: { nginx: { status: string } } };
  };
  const [stopped, other] = workersOf(gateway.pid) as [number, number];
  process.kill(stopped, "SIGSTOP");
  await waitFor("health to report it", async () => (await health()).components.nginx.status === "degraded");
  await waitFor("another worker", () => isGone(stopped) && workersOf(gateway.pid).length === 2);
  expect(workersOf(gateway.pid)).toContain(other);
  await waitFor("both workers", async () => (await fetch(`${gateway.controlUrl}/health/ready`)).ok);
  expect(gateway.output()).toContain("worker does not respond: killing it");
  const page = await fetch(`${gateway.controlUrl}/metrics`, { headers: { "X-Admin-Token": ADMIN_TOKEN } });
  expect(await page.text()).toMatch(/^ratelimit_worker_restarts_total\{[^}]*reason="unresponsive"[^}]*\} 1$/m);
}, 90_000);

it("workers and a primary that were all stopped, like a suspended machine, continue unreplaced", async () => {
  const gateway = await startGateway(yaml);
  onTestFinished(() => gateway.stop());
  const workers = workersOf(gateway.pid);
  gateway.signalAll("SIGSTOP");
  await new Promise((resolve) => setTimeout(resolve, 13_000));
  gateway.signalAll("SIGCONT");
  await waitFor("the service", async () => (await fetch(`${gateway.controlUrl}/health/ready`)).ok);
  await new Promise((resolve) => setTimeout(resolve, 4_000));
  expect(workersOf(gateway.pid)).toEqual(workers);
  expect(gateway.output()).not.toContain("does not respond");
}, 90_000);

it("workers whose primary was killed exit", async () => {
  const gateway = await startGateway(yaml);
  const workers = workersOf(gateway.pid);
  expect(workers).toHaveLength(2);
  gateway.kill("SIGKILL");
  await waitFor("the workers to exit", () => workers.every(isGone));
}, 90_000);
