/** A proxy in its own process, to measure its memory. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { createProxy } from "../../src/planes/node/http/proxy.js";
import type { ConnectionAdmission } from "../../src/slots/connection-admission.js";

export interface MemoryReport {
  /** The highest memory use since the last report, in bytes. */
  peakBytes: number;
  settled: [requestBytes: number, responseBytes: number][];
  /** Upgraded connections. */
  slotsHeld: number;
}

export interface ProxyProcess {
  readonly port: number;
  report(): Promise<MemoryReport>;
  stop(): Promise<void>;
}

export async function startProxyProcess(target: string): Promise<ProxyProcess> {
  const path = fileURLToPath(import.meta.url);
  const child: ChildProcess = fork(path, [target], { execArgv: ["--import", "tsx"] });
  const [port] = (await once(child, "message")) as [number];
  return {
    port,
    async report() {
      const answer = once(child, "message");
      child.send("report");
      return ((await answer) as [MemoryReport])[0];
    },
    async stop() {
      const exited = once(child, "exit");
      child.disconnect();
      await exited;
    },
  };
}

async function run(target: string): Promise<void> {
  const settled: [number, number][] = [];
  const verdict = { allowed: true, headers: {}, status: 200, body: "", app: "app" };
  let slotsHeld = 0;
  const upgrades: ConnectionAdmission = {
    async admit({ pods }) {
      slotsHeld++;
      const slot = { connection: "", release: () => void slotsHeld--, onLost: () => undefined };
      return { allowed: true, headers: {}, pod: pods[0]!, slot };
    },
  };
  const proxy = createProxy({
    routes: [{ path: "/", upstream: "backend", connections: {} }],
    upgrades,
    upstreams: { backend: { targets: [target] } },
    admission: { admit: () => verdict, settle: (_, request, response) => void settled.push([request, response]) },
    log: { info: () => {}, warn: console.error },
  });
  let peakBytes = 0;
  const sampling = setInterval(() => {
    peakBytes = Math.max(peakBytes, process.memoryUsage.rss());
  }, 5);
  process.on("message", () => {
    const seen = Math.max(peakBytes, process.memoryUsage.rss());
    process.send!({ peakBytes: seen, settled, slotsHeld } satisfies MemoryReport);
    peakBytes = 0;
  });
  process.once("disconnect", () => {
    clearInterval(sampling);
    void proxy.close();
  });
  proxy.server.listen(0, "127.0.0.1");
  await once(proxy.server, "listening");
  process.send!((proxy.server.address() as AddressInfo).port);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await run(process.argv[2]!);
