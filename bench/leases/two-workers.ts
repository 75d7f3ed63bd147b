/** A gateway with two workers and limits of 10: does one refuse while the other holds tokens? */
import { Client } from "undici";
import { type GatewayProcess, startGateway, startSmallBackend, workersOf } from "../../test/support/gateway-process.js";
import { startRedis } from "../../test/support/redis-server.js";

const LIMIT = 10;
const TRIALS = 20;
/** Requests to the first worker of a trial. It then holds tokens that the other one needs. */
const FIRST = 2;

export interface Refusals {
  requests: number;
  /** Refused although fewer than LIMIT requests of the app were admitted. */
  early: number;
}

const configuration = (store: string, target: string, apps: string[]) => `
node_id: two-workers
workers: 2
store: ${store}
apps:
${apps.map((app) => `  ${app}: { guaranteed: 1, burst: ${LIMIT}, profile: { based_on: iops, bandwidth: 0 } }`).join("\n")}
upstreams: { backend: { targets: ["${target}"] } }
routes: [{ path: /, upstream: backend }]
log: { level: warn }
`;

/** Each trial sends LIMIT requests of a new app, one after the other: the first to one worker, the others to the other. */
export async function twoWorkers(): Promise<Refusals> {
  const endings: (() => unknown)[] = [];
  try {
    const server = await startRedis();
    endings.push(() => server.stop());
    const backend = await startSmallBackend();
    endings.push(() => backend.stop());
    const trials = Array.from({ length: TRIALS }, (_, i) => `trial-${i}`);
    const yaml = configuration(server.url, backend.target, ["opening", ...trials]);
    const gateway = await startGateway(yaml, { built: true });
    endings.push(() => gateway.stop());
    const workers = await onePerWorker(gateway);
    endings.push(() => Promise.all(workers.map((client) => client.destroy())));
    let early = 0;
    for (const [trial, app] of trials.entries()) {
      for (let i = 0; i < LIMIT; i++) {
        const worker = (i < FIRST ? trial : trial + 1) % workers.length;
        const status = await statusOf(workers[worker]!, app);
        if (status === 429) early++;
        else if (status !== 200) throw new Error(`status ${status}`);
      }
    }
    return { requests: TRIALS * LIMIT, early };
  } finally {
    for (const end of endings.reverse()) await end();
  }
}

async function statusOf(client: Client, app: string): Promise<number> {
  const { statusCode, body } = await client.request({ path: "/", method: "GET", headers: { "x-app-id": app } });
  await body.dump();
  return statusCode;
}

/** A connection to each worker, made while the other one is stopped and cannot accept it. */
async function onePerWorker({ pid, url }: GatewayProcess): Promise<Client[]> {
  const [first, second] = workersOf(pid) as [number, number];
  const clients: Client[] = [];
  for (const stopped of [first, second]) {
    process.kill(stopped, "SIGSTOP");
    const client = new Client(url);
    clients.push(client);
    await statusOf(client, "opening").finally(() => process.kill(stopped, "SIGCONT"));
  }
  return clients;
}
