/** A draining gateway closes its WebSockets, and a client that disconnects during its upgrade leaves no slot or connection behind. */
import { once } from "node:events";
import type { Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { bodyOf, openRaw } from "../../../support/http-client.js";
import { admitted, createCleanup } from "../../../support/http-proxy.js";
import { signal } from "../../../support/http-signal.js";
import { waitFor } from "../../../support/wait-for.js";
import { startRawUpgradeBackend, startWebSocketBackend, switching, upgradeHead } from "../../../support/ws-backend.js";
import {
  closeOf,
  nothingLeft,
  openSocket,
  quick,
  reasonIn,
  sendPart,
  serverSide,
  startUpgradingProxy,
} from "../../../support/ws-proxy.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

async function start() {
  const backend = await cleanup.add(startWebSocketBackend());
  const proxy = await cleanup.add(startUpgradingProxy({ targets: [backend.target], ...quick }));
  return { backend, ...proxy };
}

describe("a drain", () => {
  it("sends 1001 to both ends of every WebSocket, and completes when all are closed", async () => {
    const running = await start();
    const sockets = await Promise.all(Array.from({ length: 5 }, () => openSocket(running.port)));
    const closed = [...sockets, ...running.backend.server.clients].map(closeOf);
    await running.proxy.drain(60_000);
    for (const end of closed) expect(await end).toEqual({ code: 1001, reason: "going away" });
    expect(running.slots.held()).toBe(0);
    expect(running.lines.filter(({ level }) => level === "warn")).toEqual([]);
  });

  it("completes a started message before closing, and drops what follows it", async () => {
    const running = await start();
    const client = await openRaw(running.port);
    client.write(upgradeHead());
    await client.until((text) => text.includes("\r\n\r\n"));
    const server = serverSide(running.backend);
    const message = once(server, "message");
    const closed = closeOf(server);
    await sendPart(client, server, "\x82\x84\0\0\0\0wh");
    const drained = running.proxy.drain(60_000);
    // The rest of the message, and half of another.
    client.write("at\x82\x84\0\0\0\0no");
    expect(String((await message)[0])).toBe("what");
    expect((await closed).code).toBe(1001);
    await client.closed();
    await drained;
    expect(running.slots.held()).toBe(0);
  });

  it("disconnects connections of other protocols, which have no close frame, at the end of the grace period", async () => {
    const backend = await cleanup.add(
      startRawUpgradeBackend((socket, head) => void socket.on("data", () => {}).write(switching(head, "tcp"))),
    );
    const running = await cleanup.add(
      startUpgradingProxy({ targets: [backend.target], connections: { protocols: ["tcp"] } }),
    );
    const client = await openRaw(running.port);
    client.write(upgradeHead({ protocol: "tcp" }));
    await client.until((text) => text.includes("\r\n\r\n"));
    await running.proxy.drain(50);
    await client.closed();
    expect(running.slots.held()).toBe(0);
    expect(running.lines).toContainEqual(
      expect.objectContaining({ message: "connections closed at the end of the grace period", connections: 1 }),
    );
  });

  it("refuses new upgrades, and closes one that was pending", async () => {
    const asked = signal<() => void>();
    const backend = await cleanup.add(
      startRawUpgradeBackend((socket, head) => asked.resolve(() => void socket.write(switching(head)))),
    );
    const running = await cleanup.add(startUpgradingProxy({ targets: [backend.target] }));
    const client = await openRaw(running.port);
    const late = await openRaw(running.port);
    client.write(upgradeHead());
    const answer = await asked.promise;
    late.write("GET");
    await waitFor("its first bytes", () => running.proxy.openConnections() >= 2);
    const drained = running.proxy.drain(60_000);
    late.write(upgradeHead().slice(3));
    expect(reasonIn(await late.closed())).toBe("draining");
    answer();
    expect(bodyOf(await client.closed())).toBe("\x88\x0c\x03\xe9going away");
    await drained;
  });
});

describe("a client that disconnects during its upgrade", () => {
  const leaves: [name: string, leave: (socket: Socket) => void][] = [
    ["by closing", (socket) => void socket.end()],
    ["by a reset", (socket) => void socket.resetAndDestroy()],
  ];

  it.each(leaves)("%s during the decision: no slot is acquired, 0 bytes are settled", async (_, leave) => {
    const decide = signal();
    const backend = await cleanup.add(startWebSocketBackend());
    const running = await cleanup.add(
      startUpgradingProxy({ targets: [backend.target], decide: () => decide.promise.then(() => admitted()) }),
    );
    const client = await openRaw(running.port);
    client.write(upgradeHead());
    await waitFor("the decision to be pending", () => running.admission.arrivals.length === 1);
    leave(client.socket);
    await nothingLeft(running);
    decide.resolve();
    expect(await running.admission.settlement()).toMatchObject({ requestBytes: 0, responseBytes: 0 });
    expect(running.slots.asked).toHaveLength(0);
  });

  it.each(leaves)("%s during the acquire: the slot is released, no backend is called", async (_, leave) => {
    const decide = signal();
    const backend = await cleanup.add(startWebSocketBackend());
    const running = await cleanup.add(
      startUpgradingProxy({ targets: [backend.target], place: ({ pods }) => decide.promise.then(() => pods[0]!) }),
    );
    const client = await openRaw(running.port);
    client.write(upgradeHead());
    await waitFor("the acquire to be pending", () => running.slots.asked.length === 1);
    leave(client.socket);
    await nothingLeft(running);
    decide.resolve();
    await waitFor("the slot", () => running.slots.given.length === 1);
    await running.slots.allFree();
    expect(backend.connections()).toBe(0);
  });

  it.each(leaves)("%s before the backend responds: its connection is closed", async (_, leave) => {
    const asked = signal<Socket>();
    const backend = await cleanup.add(startRawUpgradeBackend((socket) => asked.resolve(socket)));
    const running = await cleanup.add(startUpgradingProxy({ targets: [backend.target], ...quick }));
    const client = await openRaw(running.port);
    client.write(upgradeHead());
    const onBackend = await asked.promise;
    const closed = once(onBackend.resume(), "end");
    leave(client.socket);
    await closed;
    await running.slots.allFree();
    await nothingLeft(running);
  });

  it("at random moments, hundreds of times: every slot is released exactly once", async () => {
    const backend = await cleanup.add(startWebSocketBackend());
    const later = <T>(value: T) => new Promise<T>((resolve) => void setTimeout(resolve, Math.random() * 4, value));
    const running = await cleanup.add(
      startUpgradingProxy({
        targets: [backend.target],
        ...quick,
        decide: () => later(admitted()),
        place: ({ pods }) => later(pods[0]!),
      }),
    );
    async function visit(n: number): Promise<void> {
      const client = await openRaw(running.port);
      client.write(upgradeHead());
      await later(undefined);
      await later(undefined);
      if (n % 3 === 0) await later(undefined);
      if (n % 2 === 0) client.socket.resetAndDestroy();
      else client.socket.end();
      await client.closed();
    }
    // On a busy machine most clients leave before they have a slot.
    for (let round = 0; round < 10 || running.slots.given.length <= 20; round++) {
      await Promise.all(Array.from({ length: 40 }, (_, n) => visit(n)));
    }
    await running.slots.allFree();
    await nothingLeft(running);
    await waitFor("the backend to see it", () => backend.open() === 0);
    expect(running.slots.given.every(({ releases }) => releases === 1)).toBe(true);
  });
});
