/** Tenants that use their own app as much as they can: by price, by bytes, by number, and by limits. */
import { Agent, request } from "undici";
import { pause } from "../test/support/wait-for.js";
import type { Hostile, HostileContext } from "./hostile-actor.js";
import { HOSTILE_APP, planeNames } from "./world.js";

interface Requests {
  path: string;
  /** Sent at the same time. */
  batch: number;
  pauseMs: number;
  /** Without one, the requests are anonymous. */
  app?: string;
}

/** Sends batches through all planes by turns. Each batch ends before the next one begins, so the load is bounded. */
async function sendBatches(context: HostileContext, { path, batch, pauseMs, app }: Requests): Promise<void> {
  const agent = new Agent({
    connections: 64,
    headersTimeout: 20_000,
    bodyTimeout: 20_000,
    localAddress: "127.0.3.1",
  });
  const headers: Record<string, string> = app === undefined ? {} : { "x-app-id": app };
  let turn = 0;
  const one = async () => {
    const url = context.world.urlOf(planeNames[turn++ % planeNames.length]!);
    try {
      const { body } = await request(`${url}${path}`, { dispatcher: agent, headers });
      for await (const _ of body);
    } catch {
      // Refused, cut off or too late.
    }
  };
  while (!context.isOver()) {
    await Promise.all(Array.from({ length: batch }, one));
    await pause(pauseMs);
  }
  await agent.destroy();
}

export const hostileTenants: readonly Hostile[] = [
  {
    name: "tenant overdraws by its cost header",
    effects: {},
    play: (context) =>
      sendBatches(context, { path: "/priced/?cost=5000", batch: 60, pauseMs: 1_000, app: HOSTILE_APP }),
  },
  {
    name: "anonymous client overdraws by its cost header",
    effects: {},
    play: (context) => sendBatches(context, { path: "/priced/?cost=5000", batch: 60, pauseMs: 1_000 }),
  },
  {
    name: "tenant downloads large bodies",
    effects: {},
    play: (context) => sendBatches(context, { path: "/?bytes=4194304", batch: 12, pauseMs: 500, app: HOSTILE_APP }),
  },
  {
    name: "tenant floods its app",
    effects: {},
    play: (context) => sendBatches(context, { path: "/", batch: 40, pauseMs: 100, app: HOSTILE_APP }),
  },
  {
    name: "tenant matches three limits with each request",
    effects: {},
    play: (context) => sendBatches(context, { path: "/limited/", batch: 30, pauseMs: 100, app: HOSTILE_APP }),
  },
];
