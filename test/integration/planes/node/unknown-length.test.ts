/** The Node gateway charges bodies without a declared length and WebSockets while they pass. */
import { afterEach, describe, expect, it } from "vitest";
import { meteringScenarios } from "../../../scenarios/metering.js";
import { meteringSocketScenarios } from "../../../scenarios/metering-sockets.js";
import { startRawBackend } from "../../../support/http-backend.js";
import { openRaw } from "../../../support/http-client.js";
import { createCleanup } from "../../../support/http-proxy.js";
import { BURST, type MeteredGateway, QUANTUM, startMeteredGateway } from "../../../support/metered-gateway.js";
import { type MeteringPlane, refillUntil, standstill } from "../../../support/metered-transfers.js";
import { waitFor } from "../../../support/wait-for.js";

const gateway: MeteringPlane = {
  start: startMeteredGateway,
  cutSocket: { code: 1008, reason: "rate limit exceeded" },
  expectLimited: (plane, limited) => expect((plane as MeteredGateway).limited()).toEqual(limited),
  expectLogged(plane, fields) {
    expect((plane as MeteredGateway).lines).toContainEqual(expect.objectContaining(fields));
  },
};

meteringScenarios(gateway);
meteringSocketScenarios(gateway);

const cleanup = createCleanup();
afterEach(() => cleanup.run());

describe("a client of another protocol that ends its direction while its bytes are held back", () => {
  it("is not cut off", async () => {
    // A WebSocket by name only: the frames are not looked at by this backend.
    const seen = { bytes: 0, ended: false };
    const backend = await cleanup.add(
      startRawBackend((socket) => {
        socket.once("data", () => {
          socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
          socket.on("data", (chunk) => (seen.bytes += chunk.length));
          socket.on("end", () => (seen.ended = true));
        });
      }),
    );
    const gateway = await cleanup.add(startMeteredGateway({ target: backend.target, policy: "delay" }));
    const client = await openRaw(gateway.port);
    client.write(
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    await client.until((text) => text.includes("101 Switching"));
    const size = BURST * QUANTUM;
    client.socket.end(Buffer.alloc(size, 1));
    await standstill(() => seen.bytes, BURST - 2);
    expect(seen.ended).toBe(false);
    await refillUntil(gateway, () => seen.bytes === size);
    await waitFor("the end at the backend", () => seen.ended);
  });
});
