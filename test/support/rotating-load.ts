/** Load on several proxies, as a balancer sends it: a proxy that leaves the rotation finishes what it has, and gets nothing new. */
import { Agent, request } from "undici";
import type { Exchange } from "../../soak/history.js";
import { pause } from "./wait-for.js";

export interface Target {
  readonly plane: string;
  readonly url: string;
  /** Each request gets a connection of its own: reloads of nginx close idle connections, and a request may be on its way. */
  readonly closes: boolean;
}

export interface LoadedApp {
  app: string;
  path: string;
  headers: Record<string, string>;
  perSecond: number;
}

/** Requests of one app that are on their way at the same time; more are not sent. */
const MOST_IN_FLIGHT = 40;
const TIMEOUT_MS = 60_000;

export function startRotatingLoad(apps: LoadedApp[], now: () => number) {
  const exchanges: Exchange[] = [];
  const rotation = new Map<Target, { agent: Agent; inFlight: Set<Promise<void>> }>();
  let running = true;

  async function exchange(target: Target, agent: Agent, { app, path, headers }: LoadedApp): Promise<void> {
    const from = now();
    let [status, reason] = [0, ""];
    try {
      const reply = await request(`${target.url}${path}`, {
        dispatcher: agent,
        reset: target.closes,
        headers: { "x-app-id": app, ...headers },
      });
      const text = await reply.body.text();
      status = reply.statusCode;
      if (status !== 200) reason = /"reason": ?"(\w+)"/.exec(text)?.[1] ?? text.slice(0, 160);
    } catch (error) {
      reason = String(error);
    }
    exchanges.push({ app, plane: target.plane, from, to: now(), status, reason, retryAfterS: 0 });
  }

  /** By turns over the targets in rotation, at an even rate. Requests that a busy machine missed are not made up for. */
  async function send(app: LoadedApp): Promise<void> {
    let sent = 0;
    let pending = 0;
    while (running) {
      const targets = [...rotation];
      const next = targets[sent % Math.max(targets.length, 1)];
      if (next !== undefined && pending < MOST_IN_FLIGHT) {
        const [target, { agent, inFlight }] = next;
        pending++;
        const one = exchange(target, agent, app).finally(() => {
          pending--;
          inFlight.delete(one);
        });
        inFlight.add(one);
      }
      sent++;
      await pause(1_000 / app.perSecond);
    }
  }

  /** Sends nothing more to the target. Resolves when the last response has arrived, which may be after it was told to end. */
  async function leave(target: Target): Promise<void> {
    const { agent, inFlight } = rotation.get(target)!;
    rotation.delete(target);
    await Promise.all(inFlight);
    await agent.close();
  }

  const loops = apps.map(send);
  return {
    exchanges,
    targets: () => [...rotation.keys()],
    join(target: Target): void {
      const agent = new Agent({ connections: 64, headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS });
      rotation.set(target, { agent, inFlight: new Set() });
    },
    leave,
    async stop(): Promise<void> {
      running = false;
      await Promise.all(loops);
      await Promise.all([...rotation.keys()].map(leave));
    },
  };
}
