/** The example clients in curl, Python and Go back off: against a server that counts their attempts, and against a real gateway. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { request } from "undici";
import { afterEach, describe, expect, it } from "vitest";
import { WebSocketServer } from "ws";
import { fromRoot } from "../../build/paths.js";
import { startGateway, startSmallBackend } from "../support/gateway-process.js";

const run = promisify(execFile);
const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

const go = fromRoot(".cache/example-client");
const websockets = fromRoot(".cache/websockets-15.0.1");
const python = (script: string) => fromRoot(`examples/clients/python/${script}`);
const withPackages = { env: { ...process.env, PYTHONPATH: websockets } };

/** Sends requests one after the other as an app; returns what the client prints, or "failed". */
type Send = (url: string, requests: number, app?: string) => Promise<string>;

const printed = (command: string, args: string[], options = {}) =>
  run(command, args, options).then(
    ({ stdout }) => stdout.trim(),
    () => "failed",
  );

const senders: [name: string, isThere: boolean, send: Send][] = [
  [
    "curl",
    true,
    async (url, requests, app = "default") => {
      const answers = [];
      for (let i = 0; i < requests; i++) {
        answers.push(await printed(fromRoot("examples/clients/curl/get.sh"), [url, `X-App-Id: ${app}`]));
      }
      const failed = answers.filter((answer) => answer === "failed").length;
      return failed === 0 ? `${requests} x 200` : "failed";
    },
  ],
  [
    "Python",
    true,
    (url, requests, app = "default") =>
      printed("python3", [python("tollgate_client.py"), url, "--app", app, "--requests", String(requests)]),
  ],
  [
    "Go",
    existsSync(go),
    (url, requests, app = "default") => printed(go, ["-app", app, "-requests", String(requests), url]),
  ],
];

/** Answers in turn, then with 200. Records the time of each attempt. */
async function startServer(answer: (attempt: number, response: ServerResponse) => void) {
  const attempts: number[] = [];
  const server = createServer((_request, response) => {
    attempts.push(performance.now());
    answer(attempts.length, response);
    response.end("{}\n");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  endings.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, attempts };
}

const refusing = (status: number, headers: Record<string, string>, times = Number.POSITIVE_INFINITY) => {
  return (attempt: number, response: ServerResponse) => {
    if (attempt <= times) response.writeHead(status, headers);
  };
};

describe.each(senders)("the client in %s", (_name, isThere, send) => {
  it.skipIf(!isThere)("waits at least as long as Retry-After says, and succeeds", async () => {
    const { url, attempts } = await startServer(refusing(429, { "Retry-After": "1" }, 1));
    expect(await send(url, 1)).toMatch(/^1 x 200/);
    expect(attempts).toHaveLength(2);
    expect(attempts[1]! - attempts[0]!).toBeGreaterThanOrEqual(1_000);
  });

  it.skipIf(!isThere)("does not repeat a 429 without Retry-After, nor an error", async () => {
    for (const status of [429, 404, 500]) {
      const { url, attempts } = await startServer(refusing(status, {}));
      await send(url, 1);
      expect([status, attempts.length]).toEqual([status, 1]);
    }
  });

  it.skipIf(!isThere)("gives up after five attempts", async () => {
    const { url, attempts } = await startServer(refusing(503, { "Retry-After": "0" }));
    await send(url, 1);
    expect(attempts).toHaveLength(5);
  });

  it.skipIf(!isThere)("gets everything from a gateway whose limit it exceeds, with few refusals", async () => {
    const backend = await startSmallBackend();
    endings.push(() => backend.stop());
    const gateway = await startGateway(`
workers: 1
log: { level: warn }
apps: { demo: { guaranteed: 4, burst: 4, profile: { based_on: iops, bandwidth: 0 } } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`);
    endings.push(() => gateway.stop());
    expect(await send(`${gateway.url}/`, 12, "demo")).toMatch(/^12 x 200/);
    const metrics = await (await request(`${gateway.controlUrl}/metrics`)).body.text();
    const count = (status: string) =>
      Number(
        new RegExp(`^ratelimit_requests_total\\{app_id="demo",method="GET",status="${status}"\\} (\\d+)`, "m").exec(
          metrics,
        )?.[1] ?? 0,
      );
    expect(count("allowed")).toBe(12);
    expect(count("rejected")).toBeLessThanOrEqual(12);
  });
});

// The script with curl sends one request.
describe.each(senders.filter(([name]) => name !== "curl"))(
  "the client in %s, for several requests,",
  (_name, isThere, send) => {
    it.skipIf(!isThere)("repeats only what its budget allows", async () => {
      const { url, attempts } = await startServer(refusing(503, { "Retry-After": "0" }));
      await send(url, 40);
      // Ten retries at first, and one per ten requests.
      expect(attempts.length).toBeGreaterThan(40);
      expect(attempts.length).toBeLessThanOrEqual(40 + 10 + 4);
    });

    it.skipIf(!isThere)("waits before the next request if RateLimit says that nothing is left", async () => {
      const { url, attempts } = await startServer((attempt, response) => {
        if (attempt === 1) response.setHeader("RateLimit", '"app";r=7;t=1, "per-user";r=0;t=4');
      });
      expect(await send(url, 2)).toMatch(/^2 x 200/);
      expect(attempts[1]! - attempts[0]!).toBeGreaterThanOrEqual(1_000);
    });
  },
);

async function startPod(): Promise<WebSocketServer> {
  const pod = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  endings.push(() => pod.close());
  await new Promise((resolve) => pod.once("listening", resolve));
  return pod;
}

type Connect = (url: string, connections: number, seconds: number) => Promise<string>;
const connectors: [name: string, isThere: boolean, connect: Connect][] = [
  [
    "Python",
    existsSync(websockets),
    (url, connections, seconds) => {
      const args = [
        python("websocket_client.py"),
        url,
        "--connections",
        String(connections),
        "--seconds",
        String(seconds),
      ];
      return printed("python3", args, withPackages);
    },
  ],
  [
    "Go",
    existsSync(go),
    (url, connections, seconds) => printed(go, ["-connections", String(connections), "-seconds", String(seconds), url]),
  ],
];

describe.each(connectors)("the WebSocket client in %s", (_name, isThere, connect) => {
  it.skipIf(!isThere)("keeps what it gets, and waits for Retry-After if it is refused", async () => {
    const pod = await startPod();
    const gateway = await startGateway(`
workers: 1
log: { level: warn }
apps: { default: { guaranteed: 1000 } }
upstreams: { pods: { targets: ["127.0.0.1:${(pod.address() as AddressInfo).port}"] } }
routes: [{ path: /, upstream: pods, connections: { max_per_pod: 2, max_total: 100, rate_per_second: 100 } }]
`);
    endings.push(() => gateway.stop());
    const counts = await connect(`${gateway.url.replace("http", "ws")}/`, 8, 4);
    const [, attempts, opened, refused] = /attempts (\d+), opened (\d+), refused (\d+)/.exec(counts)?.map(Number) ?? [];
    expect(opened).toBe(2);
    expect(refused).toBeGreaterThanOrEqual(6);
    // Six refused clients, each at most once per second.
    expect(attempts).toBeLessThanOrEqual(8 + 6 * 4);
  });

  it.skipIf(!isThere)("does not come back at once when all connections are lost", async () => {
    const pod = await startPod();
    const CLIENTS = 30;
    let lostAt = Number.POSITIVE_INFINITY;
    let early = 0;
    pod.on("connection", () => {
      if (performance.now() < lostAt + 100 && lostAt < Number.POSITIVE_INFINITY) early++;
      if (pod.clients.size < CLIENTS || lostAt < Number.POSITIVE_INFINITY) return;
      lostAt = performance.now();
      for (const socket of pod.clients) socket.terminate();
    });
    await connect(`ws://127.0.0.1:${(pod.address() as AddressInfo).port}/`, CLIENTS, 3);
    expect(lostAt).toBeLessThan(Number.POSITIVE_INFINITY);
    // Spread over two seconds: 1.5 of 30 are expected within 100 ms.
    expect(early).toBeLessThan(CLIENTS / 2);
  });
});
