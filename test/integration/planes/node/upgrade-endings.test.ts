/** However an upgraded connection ends, both ends are closed, and its slot is released once, after the backend's connection is closed. */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { bodyOf, openRaw } from "../../../support/http-client.js";
import { createCleanup } from "../../../support/http-proxy.js";
import { signal } from "../../../support/http-signal.js";
import { startTcpProxy } from "../../../support/tcp-proxy.js";
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
  tcpOf,
  type UpgradingProxyOptions,
} from "../../../support/ws-proxy.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

async function start(options: UpgradingProxyOptions = {}) {
  const backend = await cleanup.add(startWebSocketBackend());
  const proxy = await cleanup.add(startUpgradingProxy({ targets: [backend.target], ...quick, ...options }));
  return { backend, ...proxy };
}

describe("an upgraded connection ends", () => {
  it("when the client resets it: the backend is disconnected, then the slot is released", async () => {
    const running = await start();
    const { backend, port, slots } = running;
    const socket = await openSocket(port);
    const closed = closeOf(serverSide(backend));
    expect(running.proxy.openConnections()).toBe(1);
    tcpOf(socket).resetAndDestroy();
    expect((await closed).code).toBe(1006);
    await slots.allFree();
    await nothingLeft(running);
  });

  it("when the backend resets it or stops: the client is disconnected", async () => {
    const running = await start();
    const { backend, port, slots } = running;
    for (const end of [() => tcpOf(serverSide(backend)).resetAndDestroy(), () => void backend.stop()]) {
      const socket = await openSocket(port);
      const closed = closeOf(socket);
      end();
      expect((await closed).code).toBe(1006);
      await slots.allFree();
    }
    await nothingLeft(running);
  });

  it("when the backend of a WebSocket closes its half only", async () => {
    const backend = await cleanup.add(
      startRawUpgradeBackend((socket, head) => void socket.end(`${switching(head)}\x81\x02hi`, "latin1")),
    );
    const running = await cleanup.add(startUpgradingProxy({ targets: [backend.target], ...quick }));
    const client = await openRaw(running.port);
    client.write(upgradeHead());
    expect(bodyOf(await client.closed())).toBe("\x81\x02hi");
    await running.slots.allFree();
    await nothingLeft(running);
  });

  it("when the client closes its half and the backend does not: both are disconnected after a timeout", async () => {
    const backend = await cleanup.add(
      startRawUpgradeBackend((socket, head) => {
        (socket as { allowHalfOpen: boolean }).allowHalfOpen = true;
        socket.on("data", () => {}).write(switching(head));
      }),
    );
    const running = await cleanup.add(startUpgradingProxy({ targets: [backend.target], ...quick }));
    const client = await openRaw(running.port);
    client.write(upgradeHead());
    await client.until((text) => text.includes("\r\n\r\n"));
    client.socket.end();
    await client.closed();
    await running.slots.allFree();
    await nothingLeft(running);
  });

  it("when it reaches the idle timeout: both ends get 1001", async () => {
    const running = await start({ connections: { idleMs: 100 } });
    const socket = await openSocket(running.port);
    const closed = closeOf(serverSide(running.backend));
    expect(await closeOf(socket)).toEqual({ code: 1001, reason: "going away" });
    expect((await closed).code).toBe(1001);
    await running.slots.allFree();
    await nothingLeft(running);
  });

  it("when the network silently drops the bytes of one end: the other end gets 1001", async () => {
    const running = await start({ connections: { idleMs: 200 } });
    const between = await cleanup.add(startTcpProxy(running.port));
    const socket = await openSocket(between.port);
    const closed = closeOf(serverSide(running.backend));
    between.silenceAll();
    expect((await closed).code).toBe(1001);
    await running.slots.allFree();
    await nothingLeft(running);
    socket.terminate();

    const silentBackend = await cleanup.add(startTcpProxy(running.backend.port));
    const other = await cleanup.add(
      startUpgradingProxy({ targets: [`127.0.0.1:${silentBackend.port}`], ...quick, connections: { idleMs: 200 } }),
    );
    const second = await openSocket(other.port);
    silentBackend.silenceAll();
    expect((await closeOf(second)).code).toBe(1001);
    await other.slots.allFree();
    await nothingLeft(other);
  });

  it("when the client does not read what the backend sends: the backend is disconnected after a timeout", async () => {
    const running = await start();
    const socket = await openSocket(running.port);
    tcpOf(socket).pause();
    const server = serverSide(running.backend);
    const closed = closeOf(server);
    const flood = Buffer.alloc(1_000_000);
    for (let n = 0; n < 40; n++) server.send(flood);
    expect((await closed).code).toBe(1006);
    await running.slots.allFree();
    socket.terminate();
    await nothingLeft(running);
  });

  it("immediately when the proxy is closed", async () => {
    const running = await start();
    const sockets = await Promise.all([openSocket(running.port), openSocket(running.port)]);
    const closed = sockets.map(closeOf);
    await running.proxy.close();
    expect(running.slots.held()).toBe(0);
    expect((await Promise.all(closed)).map(({ code }) => code)).toEqual([1006, 1006]);
    await waitFor("the backend to see it", () => running.backend.open() === 0);
  });
});

describe("a lost slot", () => {
  it("closes its own connection with 1013 at both ends, and no other connection", async () => {
    const running = await start();
    const [first, second] = [await openSocket(running.port), await openSocket(running.port)];
    const [onBackend] = [...running.backend.server.clients];
    const closed = [closeOf(first), closeOf(onBackend!)];
    running.slots.given[0]!.lose();
    for (const end of closed) expect(await end).toEqual({ code: 1013, reason: "try again later" });
    await waitFor("the slot to be released", () => running.slots.given[0]!.releases === 1);
    second.send("still there?");
    expect(String((await once(second, "message"))[0])).toBe("still there?");
    running.slots.given[0]!.lose();
    second.close();
  });

  it("disconnects an end without a close frame if a frame to it is incomplete", async () => {
    const running = await start();
    const client = await openRaw(running.port);
    client.write(upgradeHead());
    await client.until((text) => text.includes("\r\n\r\n"));
    const closed = closeOf(serverSide(running.backend));
    // The beginning of a masked frame of 100 bytes.
    await sendPart(client, serverSide(running.backend), "\x82\xe4abcdefgh");
    running.slots.given[0]!.lose();
    expect((await closed).code).toBe(1006);
    expect(bodyOf(await client.closed()), "no incomplete frame").toBe("\x88\x11\x03\xf5try again later");
    await running.slots.allFree();
  });

  it("before the backend has responded refuses the upgrade with slot_lost", async () => {
    const asked = signal<() => void>();
    const backend = await cleanup.add(
      startRawUpgradeBackend((socket, head) => asked.resolve(() => void socket.write(switching(head)))),
    );
    const running = await cleanup.add(startUpgradingProxy({ targets: [backend.target], ...quick }));
    const client = await openRaw(running.port);
    client.write(upgradeHead());
    const answer = await asked.promise;
    running.slots.given[0]!.lose();
    answer();
    expect(reasonIn(await client.closed())).toBe("slot_lost");
    await running.slots.allFree();
  });
});

describe("TCP keep-alive", () => {
  /** Hundredths of a second until the kernel sends a keep-alive probe; undefined without a keep-alive timer. */
  function asksIn(localPort: number, remotePort: number): number | undefined {
    const hex = (port: number) => port.toString(16).toUpperCase().padStart(4, "0");
    for (const line of readFileSync("/proc/net/tcp", "utf8").split("\n")) {
      const [, local = "", remote = "", , , timer = ""] = line.trim().split(/\s+/);
      if (!local.endsWith(`:${hex(localPort)}`) || !remote.endsWith(`:${hex(remotePort)}`)) continue;
      const [kind, when] = timer.split(":");
      return kind === "02" ? Number.parseInt(when!, 16) : undefined;
    }
    return undefined;
  }

  it.runIf(process.platform === "linux")(
    "probes idle connections after pingMs, and sooner once the pod is removed from the targets",
    async () => {
      const running = await start({ connections: { pingMs: 20_000 } });
      const socket = await openSocket(running.port);
      const clientPort = tcpOf(socket).localPort!;
      const backendSees = tcpOf(serverSide(running.backend)).remotePort!;
      const dueForClient = () => asksIn(running.port, clientPort);
      const dueForBackend = () => asksIn(backendSees, running.backend.port);
      await waitFor("both timers", () => dueForClient() !== undefined && dueForBackend() !== undefined);
      for (const due of [dueForClient()!, dueForBackend()!]) {
        expect(due).toBeLessThanOrEqual(2_000);
        expect(due, "not yet the interval for removed pods").toBeGreaterThan(110);
      }
      const other = await cleanup.add(startWebSocketBackend());
      running.proxy.reconfigure({
        routes: [{ path: "/", upstream: "backend", connections: {} }],
        upstreams: { backend: { targets: [other.target] } },
      });
      await waitFor("the new timer", () => (dueForBackend() ?? Number.POSITIVE_INFINITY) <= 110);
      socket.send("still there?");
      expect(String((await once(socket, "message"))[0]), "the connection stays open").toBe("still there?");
      (await openSocket(running.port)).close();
      await waitFor("the new pod to be used", () => other.connections() === 1);
      socket.close();
    },
  );
});
