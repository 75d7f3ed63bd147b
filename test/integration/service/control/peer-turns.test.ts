/** Peers without credentials at an allowed address: what they can make the control listener do is bounded, and nobody else waits for it. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import { ADMIN_TOKEN, type ControlServer, PLANE_TOKEN, startControl } from "../../../support/control-server.js";
import { createSimulatedClock, type SimulatedClock } from "../../../support/simulated-clock.js";
import { waitFor } from "../../../support/wait-for.js";

let clock: SimulatedClock;
let control: ControlServer;
const sockets: Socket[] = [];
beforeEach(async () => {
  clock = createSimulatedClock();
  control = await startControl(createEmbeddedStore(), { clock, config: { control: { allow: ["127.0.0.0/8"] } } });
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await control.close();
});

/** Asks again and again on each connection, and counts the replies. */
async function flood(path: string, { connections = 20, from = "127.0.0.2", headers = "" } = {}) {
  const counts = { replies: 0, bytes: 0, closed: 0 };
  const ask = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n`;
  for (let n = 0; n < connections; n++) {
    const socket = connect({ port: control.port, host: "127.0.0.1", localAddress: from });
    sockets.push(socket);
    socket.on("error", () => {});
    socket.on("close", () => counts.closed++);
    socket.on("data", (chunk: Buffer) => {
      counts.bytes += chunk.length;
      const heads = chunk.toString("latin1").match(/HTTP\/1\.1 \d+/g)?.length ?? 0;
      counts.replies += heads;
      for (let i = 0; i < heads; i++) socket.write(ask);
    });
    await once(socket, "connect");
    socket.write(ask);
  }
  return counts;
}

/** Resolves when no reply has come for some rounds of calls with credentials. */
async function untilQuiet(counts: { replies: number }): Promise<number> {
  await waitFor("the flood to wait", async () => {
    const before = counts.replies;
    for (let i = 0; i < 20; i++) await sync();
    return counts.replies === before && before > 0;
  });
  return counts.replies;
}

let seq = 0;
async function sync(): Promise<number> {
  seq++;
  const response = await control.post(
    { node: "plane-1", epoch: 1, seq, apps: [] },
    { authorization: `Bearer ${PLANE_TOKEN}` },
  );
  await response.text();
  return response.status;
}

it.each(["/openapi.json", "/metrics", "/health/deep", "/no-such-path", "/admin/ratelimit/status"])(
  "a flood of GET %s waits, while planes, operators and other peers are answered",
  async (path) => {
    const counts = await flood(path);
    const first = await untilQuiet(counts);
    expect(first).toBeLessThanOrEqual(1_004);
    expect(counts.bytes).toBeLessThan(1_000 * 8_192 + 4 * 500_000);
    // Of the same address, with credentials.
    for (let i = 0; i < 50; i++) expect(await sync()).toBe(200);
    expect((await control.admin("GET", "/status")).status).toBe(200);
    const page = await flood("/openapi.json", {
      from: "127.0.0.2",
      connections: 1,
      headers: `Authorization: Bearer ${ADMIN_TOKEN}\r\n`,
    });
    await waitFor("an operator to read the document often", () => page.replies > 2_000);
    // Another peer without them.
    expect((await fetch(`${control.url}/openapi.json`)).status).toBe(200);
    expect(counts.replies).toBe(first);
    await clock.advance(20_000);
    await waitFor("further replies", () => counts.replies > first);
  },
);

it("a peer that does not read its replies, or opens more connections, is closed", async () => {
  const counts = await flood("/health/live", { connections: 400 });
  await untilQuiet(counts);
  await waitFor("connections of requests that cannot wait to be closed", () => counts.closed >= 140);
  expect(await sync()).toBe(200);
});
