/** A data plane with credentials of its own that lies in its messages. It names only the app of the hostile tenant. */
import { request } from "undici";
import { pause } from "../test/support/wait-for.js";
import type { Hostile, HostileContext } from "./hostile-actor.js";
import { HOSTILE_APP, HOSTILE_PLANE, HOSTILE_PLANE_TOKEN } from "./world.js";

const ENORMOUS = 1e12;
/** Between two messages: what one plane can send without being noticed as a flood. */
const PAUSE_MS = 20;
const CONNECTIONS_PER_MESSAGE = 500;
const VALUES_PER_MESSAGE = 200;

interface AppLine {
  app: string;
  granted?: number;
  spent?: number;
  returned?: number;
  want?: number;
}

/** Sends a message to each service by turns, until the time is over. */
async function sendMessages(
  { world, isOver }: HostileContext,
  path: string,
  message: (number: number) => unknown,
): Promise<void> {
  const headers = { authorization: `Bearer ${HOSTILE_PLANE_TOKEN}`, "content-type": "application/json" };
  for (let number = 1; !isOver(); number++) {
    const url = world.controlUrls()[number % 2]!;
    try {
      const body = JSON.stringify(message(number));
      const reply = await request(`${url}${path}`, { method: "POST", headers, body, headersTimeout: 5_000 });
      await reply.body.dump();
    } catch {
      // The service is away.
    }
    await pause(PAUSE_MS);
  }
}

/** Each run is a new life of the node, so that earlier lies do not make later ones stale. */
const sync = (context: HostileContext, node: (number: number) => string, lines: (number: number) => AppLine[]) => {
  const epoch = Math.floor(context.random() * 2 ** 40);
  const filled = (line: AppLine) => ({ granted: 0, spent: 0, returned: 0, need: 0, want: 0, ...line });
  return sendMessages(context, "/v1/sync", (seq) => ({ epoch, seq, node: node(seq), apps: lines(seq).map(filled) }));
};

const own = () => HOSTILE_PLANE;
const manyNodes = (number: number) => `${HOSTILE_PLANE}-${number}`;

export const hostilePlanes: readonly Hostile[] = [
  {
    name: "plane claims enormous spending",
    effects: {},
    play: (context) =>
      sync(context, own, (seq) => [{ app: HOSTILE_APP, granted: ENORMOUS + seq, spent: ENORMOUS + seq }]),
  },
  {
    name: "plane claims spending without grants",
    effects: {},
    play: (context) => sync(context, own, (seq) => [{ app: HOSTILE_APP, spent: ENORMOUS + seq }]),
  },
  {
    name: "plane claims enormous grants",
    effects: {},
    play: (context) => sync(context, own, (seq) => [{ app: HOSTILE_APP, granted: ENORMOUS + seq }]),
  },
  {
    name: "plane claims enormous returns",
    effects: {},
    play: (context) =>
      sync(context, own, (seq) => [{ app: HOSTILE_APP, granted: ENORMOUS + seq, returned: ENORMOUS + (seq >> 1) }]),
  },
  {
    name: "plane registers thousands of nodes",
    effects: {},
    play: (context) => sync(context, manyNodes, () => [{ app: HOSTILE_APP, want: 1 }]),
  },
  {
    name: "plane invents values of limits",
    effects: {},
    play: (context) =>
      sync(context, own, (seq) =>
        Array.from({ length: VALUES_PER_MESSAGE }, (_, i) => ({ app: `limit:by-user:v${seq}x${i}`, want: 10 })),
      ),
  },
  {
    name: "plane renews slots of invented routes",
    effects: {},
    play: (context) =>
      sendMessages(context, "/v1/connections/renew", (number) => ({
        proxy: HOSTILE_PLANE,
        connections: Array.from({ length: CONNECTIONS_PER_MESSAGE }, (_, i) => ({
          connection: `c${number}-${i}`,
          pod: "127.0.0.1:9",
          route: `/invented-${number}-${i}/`,
        })),
      })),
  },
  {
    name: "plane renews connections that do not exist",
    effects: {},
    play: (context) =>
      sendMessages(context, "/v1/connections/renew", (number) => ({
        proxy: `${HOSTILE_PLANE}-${number}`,
        route: "/ws/",
        connections: Array.from({ length: CONNECTIONS_PER_MESSAGE }, (_, i) => ({
          connection: `c${number}-${i}`,
          pod: context.world.pods[0]!.target,
        })),
      })),
  },
];
