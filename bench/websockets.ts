/** Measures WebSockets through the gateway: memory and CPU of idle connections, connects per second, 1 GiB of echo. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { atLeast, below, noBudget, type Result, result } from "./results.js";
import type { Order, Told } from "./websockets-side.js";

const WANTED = 10_000;
/** File descriptors of a process besides its connections. */
const SPARE_FILES = 200;
const WARM_UP_MS = 3_000;
const CHURN_MS = 5_000;
/** Long enough to renew all slots once. */
const IDLE_MS = 10_000;
const GIB = 1_073_741_824;

interface Side {
  readonly ports: number[];
  tell<K extends Order["do"]>(order: Extract<Order, { do: K }>): Promise<Told[K]>;
  /** CPU time so far. */
  cpuMs(): number;
  stop(): void;
}

async function start(role: string, ...args: number[]): Promise<Side> {
  const script = new URL("websockets-side.ts", import.meta.url).pathname;
  const child: ChildProcess = fork(script, [role, ...args.map(String)], {
    execArgv: ["--import", "tsx", "--expose-gc"],
  });
  const [ports] = (await once(child, "message")) as [number[]];
  return {
    ports,
    async tell(order) {
      const told = once(child, "message");
      child.send(order);
      return (await told)[0];
    },
    cpuMs() {
      const stat = readFileSync(`/proc/${child.pid}/stat`, "utf8");
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return (Number(fields[11]) + Number(fields[12])) * 10;
    },
    stop: () => void child.kill("SIGKILL"),
  };
}

/** A connection uses two file descriptors of the gateway. */
function possibleConnections(): number {
  const limit = /Max open files\s+(\d+)/.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
  return Math.min(WANTED, Math.floor((Number(limit) - SPARE_FILES) / 2));
}

interface Measured {
  connectsPerSecond: number;
  /** Connects per CPU-second of the proxy. */
  connectsPerCpuSecond: number;
  /** Share of one core while connections open and close. */
  busy: number;
  bytesPerConnection: number;
  idleCpu: number;
  backendBusy: number;
  clientBusy: number;
}

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

async function measure(proxy: Side, client: Side, backend: Side, count: number): Promise<Measured> {
  const port = proxy.ports[0]!;
  await client.tell({ do: "churn", port, milliseconds: WARM_UP_MS });
  const sides = [proxy, backend, client];
  const before = sides.map((side) => side.cpuMs());
  const { connects, milliseconds } = await client.tell({ do: "churn", port, milliseconds: CHURN_MS });
  const [busy = 0, backendBusy = 0, clientBusy = 0] = sides.map(
    (side, at) => (side.cpuMs() - before[at]!) / milliseconds,
  );

  const { bytes: empty } = await proxy.tell({ do: "memory" });
  await client.tell({ do: "open", port, count });
  const { bytes: full } = await proxy.tell({ do: "memory" });
  const idleFrom = proxy.cpuMs();
  await pause(IDLE_MS);
  const idleCpu = (proxy.cpuMs() - idleFrom) / IDLE_MS;
  await client.tell({ do: "close-all" });
  return {
    connectsPerSecond: connects / (milliseconds / 1_000),
    busy,
    backendBusy,
    clientBusy,
    idleCpu,
    connectsPerCpuSecond: connects / ((busy * milliseconds) / 1_000),
    bytesPerConnection: (full - empty) / count,
  };
}

export async function websockets(): Promise<Result[]> {
  const count = possibleConnections();
  const sides: Side[] = [];
  const begin = async (role: string, ...args: number[]) => {
    const side = await start(role, ...args);
    sides.push(side);
    return side;
  };
  try {
    const backend = await begin("backend");
    const client = await begin("client");
    const peer = await begin("peer", ...backend.ports);
    const beside = await measure(peer, client, backend, count);
    peer.stop();
    const gateway = await begin("gateway", ...backend.ports);
    const own = await measure(gateway, client, backend, count);
    const echo = await client.tell({ do: "echo", port: gateway.ports[0]!, bytes: GIB });
    return [
      result("websocket-idle-connections", count, "open at once on one process", noBudget),
      result("websocket-idle-memory", own.bytesPerConnection / 1_024, "KiB per connection", below(32)),
      result("websocket-idle-memory-peer", beside.bytesPerConnection / 1_024, "KiB with http-proxy-3", noBudget),
      result("websocket-idle-cpu", own.idleCpu * 100, "% of a core with all of them open", below(10)),
      result("websocket-connects", own.connectsPerSecond, "opened and closed per second", noBudget),
      result("websocket-connects-peer", beside.connectsPerSecond, "with http-proxy-3, without any limit", noBudget),
      result("websocket-connects-cpu", own.connectsPerCpuSecond, "per second of the gateway's CPU", noBudget),
      result("websocket-connects-cpu-peer", beside.connectsPerCpuSecond, "per second of http-proxy-3's CPU", noBudget),
      result("websocket-connects-busy", own.busy * 100, "% of a core: the gateway meanwhile", noBudget),
      result("websocket-connects-others", (own.backendBusy + own.clientBusy) * 100, "% : backend, client", noBudget),
      result("websocket-echo-intact", echo.intact ? 1 : 0, "1: a GiB both ways, every byte as sent", atLeast(1)),
      result("websocket-echo", echo.bytes / 1e6 / (echo.milliseconds / 1_000), "MB/s each way", noBudget),
    ];
  } finally {
    for (const side of sides) side.stop();
  }
}
