/** A proxy under test that upgrades connections, with a keeper of slots that remembers what it gave and what came back. */
import { once } from "node:events";
import type { Socket } from "node:net";
import { expect } from "vitest";
import { WebSocket } from "ws";
import type { Route } from "../../src/config/options/proxy.js";
import type {
  ConnectionAdmission,
  ConnectionRequest,
  ConnectionVerdict,
} from "../../src/slots/connection-admission.js";
import { bodyOf, type RawClient } from "./http-client.js";
import { type RunningProxy, startProxy, type TestProxyOptions } from "./http-proxy.js";
import { waitFor } from "./wait-for.js";
import type { WebSocketBackend } from "./ws-backend.js";

export interface TestSlot {
  readonly pod: string;
  /** How often it was given back: once, if all is well. */
  releases: number;
  lose(): void;
}

export interface TestSlots extends ConnectionAdmission {
  readonly asked: ConnectionRequest[];
  readonly given: TestSlot[];
  /** Slots that have not come back. */
  held(): number;
  /** Resolves when all that were given have come back. */
  allFree(): Promise<void>;
}

type Placed = Exclude<ConnectionVerdict, { allowed: true }> | string;
export type Place = (arrival: ConnectionRequest) => Placed | Promise<Placed>;

/** `place` names the pod, or refuses. Default: the pods by turns. */
export function createTestSlots(place?: Place): TestSlots {
  let turn = 0;
  const byTurns: Place = ({ pods }) => pods[turn++ % pods.length]!;
  const slots: TestSlots = {
    asked: [],
    given: [],
    async admit(arrival) {
      const { app, route, pods } = arrival;
      slots.asked.push({ app, route, pods });
      const placed = await (place ?? byTurns)(arrival);
      if (typeof placed !== "string") return placed;
      const handlers: (() => void)[] = [];
      const slot: TestSlot = {
        pod: placed,
        releases: 0,
        lose() {
          for (const handler of handlers) handler();
        },
      };
      slots.given.push(slot);
      return {
        allowed: true,
        headers: { "X-Slot": String(slots.given.length) },
        pod: placed,
        slot: {
          connection: `connection-${slots.given.length}`,
          release: () => void slot.releases++,
          onLost: (handler) => void handlers.push(handler),
        },
      };
    },
    held: () => slots.given.filter(({ releases }) => releases === 0).length,
    allFree: () => waitFor("all slots to be free", () => slots.held() === 0).then(() => undefined),
  };
  return slots;
}

export interface UpgradingProxy extends RunningProxy {
  readonly slots: TestSlots;
}

export interface UpgradingProxyOptions extends TestProxyOptions {
  connections?: NonNullable<Route["connections"]>;
  place?: Place;
}

/** Every path leads to `targets`. Its end checks that every slot came back exactly once. */
export async function startUpgradingProxy({
  connections = {},
  place,
  ...options
}: UpgradingProxyOptions): Promise<UpgradingProxy> {
  const slots = createTestSlots(place);
  const proxy = await startProxy({
    routes: [{ path: "/", upstream: "backend", name: "everything", connections }],
    upgrades: slots,
    ...options,
  });
  return {
    ...proxy,
    slots,
    async stop() {
      await proxy.stop();
      expect(slots.given.map(({ releases }) => releases)).toEqual(slots.given.map(() => 1));
    },
  };
}

/** Opens a WebSocket; rejects with the status when the answer is another one. */
export async function openSocket(
  port: number,
  options: WebSocket.ClientOptions & { path?: string; protocols?: string[] } = {},
): Promise<WebSocket> {
  const { path = "/", protocols = [], ...rest } = options;
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, protocols, { perMessageDeflate: false, ...rest });
  await Promise.race([
    once(socket, "open"),
    once(socket, "unexpected-response").then(([, response]) => {
      response.resume();
      throw new Error(`status ${response.statusCode}`);
    }),
  ]);
  return socket;
}

export interface Closed {
  code: number;
  reason: string;
}

export async function closeOf(socket: WebSocket): Promise<Closed> {
  const [code, reason] = (await once(socket, "close")) as [number, Buffer];
  return { code, reason: reason.toString() };
}

/** Short times, so that nobody waits long for what has to time out. */
export const quick = { timeouts: { bodyIdleMs: 400, lingerMs: 200 } };

/** The backend's end of the connection that came last. */
export const serverSide = ({ server }: WebSocketBackend): WebSocket => [...server.clients].at(-1)!;

export const tcpOf = (socket: WebSocket): Socket => (socket as unknown as { _socket: Socket })._socket;

/** Why the proxy itself has refused something. */
export const reasonIn = (text: string): string => (JSON.parse(bodyOf(text)) as { reason: string }).reason;

/** Resolves when the bytes have arrived at the backend. */
export async function sendPart(client: RawClient, server: WebSocket, bytes: string): Promise<void> {
  const before = tcpOf(server).bytesRead;
  client.write(bytes);
  await waitFor("the backend to have read it", () => tcpOf(server).bytesRead === before + bytes.length);
}

export async function nothingLeft({ proxy }: RunningProxy): Promise<void> {
  await waitFor("nothing to be left", () => proxy.openConnections() === 0 && proxy.upgradedConnections() === 0);
}
