/** WebSockets are charged while their bytes pass. Played on the Node gateway and on Envoy with its dynamic module. */
import { once } from "node:events";
import { afterEach, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { createCleanup } from "../support/http-proxy.js";
import { BURST, QUANTUM } from "../support/metered-gateway.js";
import { GET, type MeteringPlane, price, refillUntil, SIZE, standstill } from "../support/metered-transfers.js";
import { waitFor } from "../support/wait-for.js";
import { startWebSocketBackend } from "../support/ws-backend.js";

export function meteringSocketScenarios(plane: MeteringPlane): void {
  const cleanup = createCleanup();
  afterEach(() => cleanup.run());

  async function connectSocket(port: number) {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/`);
    socket.on("error", () => undefined);
    const closed = once(socket, "close").then(([code, reason]) => ({ code: Number(code), reason: String(reason) }));
    await once(socket, "open");
    return { socket, closed };
  }

  /** A message is one frame in a chunk of its own, mostly. */
  const MESSAGE = Buffer.alloc(16_000, "x");

  describe("a WebSocket whose bytes exceed the burst", () => {
    async function start(policy: "cut" | "delay" | "charge", bodyIdleMs?: number) {
      const seen = { bytes: 0, closeCode: 0 };
      const backend = await cleanup.add(
        startWebSocketBackend((socket) => {
          socket.on("message", (data: Buffer) => {
            seen.bytes += data.length;
            if (String(data.subarray(0, 4)) === "echo") socket.send(data);
          });
          socket.on("close", (code) => (seen.closeCode = code));
        }),
      );
      const options = { target: backend.target, policy, ...(bodyIdleMs === undefined ? {} : { bodyIdleMs }) };
      const gateway = await cleanup.add(plane.start(options));
      return { seen, gateway, ...(await connectSocket(gateway.port)) };
    }

    it("with `cut` is closed with 1008, and charged for what has passed", async () => {
      const { seen, gateway, socket, closed } = await start("cut");
      for (let sent = 0; sent < SIZE; sent += MESSAGE.length) socket.send(MESSAGE);
      expect(await closed).toEqual(plane.cutSocket);
      expect(seen.bytes).toBeLessThan((BURST + 1) * QUANTUM);
      plane.expectLogged?.(gateway, {
        reason: "quota_exhausted",
        message: "connection closed: no tokens for its bytes",
      });
      const charged = await gateway.charged();
      expect(charged).toBeLessThanOrEqual(BURST + 1);
      expect(charged).toBeGreaterThanOrEqual(price(GET, seen.bytes));
    });

    it("with `delay` stands still while there are no tokens, and continues with new ones, in both directions", async () => {
      const { seen, gateway, socket, closed } = await start("delay");
      const echoed = { bytes: 0 };
      socket.on("message", (data: Buffer) => (echoed.bytes += data.length));
      const message = Buffer.concat([Buffer.from("echo"), MESSAGE]);
      const count = Math.ceil(SIZE / 2 / message.length);
      for (let i = 0; i < count; i++) socket.send(message);
      const stopped = await standstill(() => seen.bytes + echoed.bytes, BURST - 2);
      expect(stopped).toBeLessThan((BURST + 1) * QUANTUM);
      await refillUntil(gateway, () => echoed.bytes === count * message.length);
      socket.close(1000);
      expect(await closed).toMatchObject({ code: 1000 });
      // Frames have headers of 4 bytes, and 4 more with a mask; close frames have no size worth a quantum.
      const bytes = count * (2 * message.length + 12);
      const charged = await gateway.charged();
      expect(charged).toBeGreaterThanOrEqual(price(GET, bytes));
      expect(charged).toBeLessThanOrEqual(price(GET, bytes + 100));
    });

    it("with `delay` is closed with 1008 after body_idle_ms without tokens", async () => {
      const { seen, socket, closed } = await start("delay", 500);
      for (let sent = 0; sent < SIZE; sent += MESSAGE.length) socket.send(MESSAGE);
      expect(await closed).toEqual(plane.cutSocket);
      expect(seen.bytes).toBeLessThan((BURST + 1) * QUANTUM);
    });

    it("with `charge` passes everything and leaves a debt", async () => {
      const { seen, gateway, socket, closed } = await start("charge");
      for (let sent = 0; sent < SIZE; sent += MESSAGE.length) socket.send(MESSAGE);
      await waitFor("all messages", () => seen.bytes >= SIZE);
      socket.close(1000);
      expect(await closed).toMatchObject({ code: 1000 });
      expect(await gateway.charged()).toBeGreaterThanOrEqual(price(GET, SIZE));
    });

    it("passes on what was sent before the end, even if it was held back", async () => {
      const { seen, gateway, socket, closed } = await start("delay");
      const count = BURST * 5;
      for (let i = 0; i < count; i++) socket.send(MESSAGE);
      socket.close(1000);
      await standstill(() => seen.bytes, BURST - 2);
      await refillUntil(gateway, () => seen.bytes === count * MESSAGE.length);
      expect(await closed).toMatchObject({ code: 1000 });
      await waitFor("the close frame at the backend", () => seen.closeCode === 1000);
    });
  });
}
