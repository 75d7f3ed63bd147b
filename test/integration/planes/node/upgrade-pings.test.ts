/** Pings of the gateway: a client that answers stays, one that does not is gone, and its slot is released once. */
import { afterEach, expect, it } from "vitest";
import { openRaw } from "../../../support/http-client.js";
import { createCleanup } from "../../../support/http-proxy.js";
import { waitFor } from "../../../support/wait-for.js";
import { startRawUpgradeBackend, startWebSocketBackend, switching, upgradeHead } from "../../../support/ws-backend.js";
import { closeOf, nothingLeft, openSocket, quick, serverSide, startUpgradingProxy } from "../../../support/ws-proxy.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

const PING_MS = 200;

async function start(pingMs = PING_MS) {
  const backend = await cleanup.add(startWebSocketBackend());
  const options = { targets: [backend.target], connections: { pingMs }, ...quick };
  return { backend, ...(await cleanup.add(startUpgradingProxy(options))) };
}

it("a silent client is pinged and stays open; the backend sees nothing of it", async () => {
  const { backend, port } = await start();
  const socket = await openSocket(port);
  const pongs: string[] = [];
  serverSide(backend).on("pong", (data) => pongs.push(data.toString()));
  let pings = 0;
  socket.on("ping", () => pings++);
  await waitFor("several pings", () => pings >= 4);
  expect([socket.readyState, pongs]).toEqual([socket.OPEN, []]);
  const answered = new Promise((resolve) => socket.once("message", (data) => resolve(data.toString())));
  socket.send("still here");
  expect(await answered).toBe("still here");
  socket.terminate();
});

it("a client that does not answer pings is closed, though its machine answers TCP probes; its slot is released once", async () => {
  const running = await start();
  const socket = await openSocket(running.port, { autoPong: false });
  const ofBackend = closeOf(serverSide(running.backend));
  const { code } = await closeOf(socket);
  expect([code, (await ofBackend).code]).toEqual([1001, 1001]);
  await running.slots.allFree();
  await nothingLeft(running);
});

it("a client that only sends is not pinged, and pings of the application are answered by its client", async () => {
  const { backend, port } = await start(2_000);
  const socket = await openSocket(port);
  const seen: string[] = [];
  socket.on("ping", (data) => seen.push(data.toString()));
  serverSide(backend).on("pong", (data) => seen.push(`pong ${data}`));
  serverSide(backend).ping("from the backend");
  await waitFor("both ends to have seen it", () => seen.length === 2);
  expect(seen).toEqual(["from the backend", "pong from the backend"]);
  socket.terminate();
});

it("no ping is sent within a frame of the backend; between the frames of a message it is", async () => {
  const sent: ((bytes: Buffer) => void)[] = [];
  const backend = await cleanup.add(
    startRawUpgradeBackend((socket, head) => {
      socket.write(switching(head));
      sent.push((bytes) => void socket.write(bytes));
      socket.on("data", () => {});
    }),
  );
  const options = { targets: [backend.target], connections: { pingMs: PING_MS }, ...quick };
  const { port } = await cleanup.add(startUpgradingProxy(options));
  const client = await openRaw(port);
  client.write(upgradeHead());
  const bytes = () => Buffer.from(client.text().split("\r\n\r\n").slice(1).join("\r\n\r\n"), "latin1");
  await waitFor("the backend to be called", () => sent.length === 1);
  // The first frame of a text message of two, four bytes long, without its last byte.
  sent[0]!(Buffer.from("\x01\x04abc", "latin1"));
  await waitFor("its beginning", () => bytes().length === 5);
  await new Promise((resolve) => setTimeout(resolve, 3 * PING_MS));
  expect(bytes().toString("latin1")).toBe("\x01\x04abc");
  sent[0]!(Buffer.from("d"));
  await waitFor("the ping after the frame", () => bytes().length > 6);
  expect(bytes().toString("latin1")).toContain("\x01\x04abcd\x89\x08tollgate");
});
