/** Load on all planes: requests of each app at changing rates, and WebSockets that come and go. */
import { Agent, request } from "undici";
import { WebSocket } from "ws";
import { pause } from "../test/support/wait-for.js";
import type { Exchange } from "./history.js";
import { CLIENT_TIMEOUT_MS } from "./judge.js";
import { planeNames, rules, SOCKET_APP, type World } from "./world.js";

/** Requests per second of one app on one plane, times one of these factors, which changes every few seconds. */
const BASE_RATE = 10;
const FACTORS = [0.2, 1, 1, 3];
const MOST_IN_FLIGHT = 60;
const SOCKET_CLIENTS = 16;
const KEEP_ALIVE_MS = 1_000;

export interface LoadOptions {
  world: World;
  random(): number;
  /** Milliseconds since the start. */
  now(): number;
  /** Called once per request. */
  ended(exchange: Exchange): void;
  /** Called for each WebSocket that was opened. */
  socketOpened(): void;
}

export function startLoad({ world, random, now, ended, socketOpened }: LoadOptions) {
  const timeouts = { headersTimeout: CLIENT_TIMEOUT_MS, bodyTimeout: CLIENT_TIMEOUT_MS };
  // Connections that a stall made necessary are closed after it: otherwise they would look like a leak of the planes.
  const keepAlive = { keepAliveTimeout: KEEP_ALIVE_MS, keepAliveMaxTimeout: KEEP_ALIVE_MS };
  // Each app's client has its own address.
  const agents = new Map(
    Object.keys(rules).map((app, i) => [
      app,
      new Agent({ ...timeouts, ...keepAlive, connections: 60, localAddress: `127.0.1.${i + 1}` }),
    ]),
  );
  const inFlight = new Set<Promise<void>>();
  const sockets = new Set<WebSocket>();
  let running = true;
  let opened = 0;
  let refusedSockets = 0;

  async function exchange(plane: (typeof planeNames)[number], app: string): Promise<void> {
    const from = now();
    let [status, reason, retryAfterS] = [0, "", 0];
    try {
      const reply = await request(`${world.urlOf(plane)}/`, {
        dispatcher: agents.get(app)!,
        headers: { "x-app-id": app },
      });
      status = reply.statusCode;
      const text = await reply.body.text();
      if (status !== 200) reason = /"reason": ?"(\w+)"/.exec(text)?.[1] ?? text.slice(0, 160);
      retryAfterS = Number(/"retry_after": ?(\d+)/.exec(text)?.[1] ?? 0);
    } catch (error) {
      // A response that breaks off after its head was admitted.
      if (status !== 200) reason = (error as NodeJS.ErrnoException).code ?? String(error);
    }
    ended({ app, plane, from, to: now(), status, reason, retryAfterS });
  }

  async function requests(plane: (typeof planeNames)[number], app: string): Promise<void> {
    const { rate, isNeverRefused } = rules[app]!;
    let factor = 1;
    let changeAt = 0;
    let pending = 0;
    while (running) {
      if (now() >= changeAt) {
        factor = FACTORS[Math.floor(random() * FACTORS.length)]!;
        changeAt = now() + 2_000 + random() * 3_000;
      }
      // Half of the rate, evenly over the planes and over time; or at random, sometimes above the limit.
      if (isNeverRefused) await pause((2_000 * planeNames.length) / rate);
      else await pause((-Math.log(1 - random()) * 1_000) / (BASE_RATE * factor));
      if (pending >= MOST_IN_FLIGHT) continue;
      pending++;
      const one = exchange(plane, app).finally(() => {
        pending--;
        inFlight.delete(one);
      });
      inFlight.add(one);
    }
  }

  async function socketClient(number: number): Promise<void> {
    while (running) {
      const plane = planeNames[Math.floor(random() * planeNames.length)]!;
      const url = `${world.urlOf(plane).replace("http", "ws")}/ws/`;
      const socket = new WebSocket(url, {
        headers: { "x-app-id": SOCKET_APP },
        handshakeTimeout: CLIENT_TIMEOUT_MS,
        localAddress: `127.0.2.${number + 1}`,
      });
      sockets.add(socket);
      const isOpen = await new Promise<boolean>((resolve) => {
        socket.on("error", () => resolve(false));
        socket.on("close", () => resolve(false));
        socket.on("open", () => resolve(true));
      });
      if (isOpen) {
        opened++;
        socketOpened();
      } else refusedSockets++;
      await pause(500 + random() * 3_000);
      // Some clients vanish without a closing handshake.
      if (random() < 0.3) socket.terminate();
      else socket.close();
      sockets.delete(socket);
    }
  }

  const loops = [
    ...planeNames.flatMap((plane) => Object.keys(rules).map((app) => requests(plane, app))),
    ...Array.from({ length: SOCKET_CLIENTS }, (_, number) => socketClient(number)),
  ];
  return {
    counts: () => ({ opened, refusedSockets }),
    /** Resolves when the last response has arrived. */
    async stop(): Promise<void> {
      running = false;
      for (const socket of sockets) socket.terminate();
      await Promise.all(loops);
      await Promise.all(inFlight);
      await Promise.all([...agents.values()].map((agent) => agent.close()));
    },
  };
}
