/**
 * Bodies without a declared length are charged while they pass: cut, delayed, or charged at the end. Played on the Node gateway
 * and on Envoy with its dynamic module.
 */
import type { Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { startRawBackend } from "../support/http-backend.js";
import { fetchReply, json } from "../support/http-client.js";
import { createCleanup } from "../support/http-proxy.js";
import { BURST, QUANTUM } from "../support/metered-gateway.js";
import {
  download,
  expectPaid,
  type Framing,
  GET,
  type MeteringPlane,
  PUT,
  price,
  QUANTA,
  refillUntil,
  SIZE,
  standstill,
  startCountingBackend,
  startSendingBackend,
  upload,
} from "../support/metered-transfers.js";
import { waitFor } from "../support/wait-for.js";

export function meteringScenarios(plane: MeteringPlane): void {
  const cleanup = createCleanup();
  afterEach(() => cleanup.run());

  describe("a chunked upload above the burst", () => {
    it("with `cut` is refused with 429 when the tokens are spent, and charged for what has passed", async () => {
      const { seen, starting } = startCountingBackend();
      const backend = await cleanup.add(starting);
      const gateway = await cleanup.add(plane.start({ target: backend.target, policy: "cut" }));
      const reply = await upload(gateway.port);
      expect(reply.status).toBe(429);
      expect(json(reply)).toMatchObject({ error: "rate_limit_exceeded", reason: "quota_exhausted", app_id: "default" });
      expect(Number(reply.headers["retry-after"])).toBeGreaterThan(0);
      expect(reply.headers.connection).toBe("close");
      await waitFor("the backend to see the abort", () => seen.aborted === 1);
      expectPaid(seen.bytes, BURST - PUT);
      plane.expectLogged?.(gateway, { level: "warn", reason: "quota_exhausted", message: "exchange failed" });
      plane.expectLimited?.(gateway, { aborted: 1 });
      const charged = await gateway.charged();
      expect(charged).toBeLessThanOrEqual(BURST + 1);
      expect(charged).toBeGreaterThanOrEqual(price(PUT, seen.bytes));
    });

    it("with `delay` stands still while there are no tokens, continues with new ones, and is charged exactly", async () => {
      const { seen, starting } = startCountingBackend();
      const backend = await cleanup.add(starting);
      const gateway = await cleanup.add(plane.start({ target: backend.target, policy: "delay" }));
      const replied = upload(gateway.port);
      expectPaid(await standstill(() => seen.bytes, BURST - PUT), BURST - PUT);
      gateway.refill(10);
      expectPaid(await standstill(() => seen.bytes, BURST - PUT + 10), BURST - PUT + 10);
      await refillUntil(gateway, () => seen.bytes === SIZE);
      expect((await replied).body).toBe("stored");
      expect(seen.bytes).toBe(SIZE);
      plane.expectLimited?.(gateway, { delayed: 1 });
      expect(await gateway.charged()).toBe(PUT + QUANTA + 1);
    });

    it("with `delay` is refused with 429 after body_idle_ms without tokens", async () => {
      const { seen, starting } = startCountingBackend();
      const backend = await cleanup.add(starting);
      const gateway = await cleanup.add(plane.start({ target: backend.target, policy: "delay", bodyIdleMs: 500 }));
      const reply = await upload(gateway.port);
      expect(reply.status).toBe(429);
      expectPaid(seen.bytes, BURST - PUT);
    });

    it("with `charge` passes and leaves a debt", async () => {
      const { seen, starting } = startCountingBackend();
      const backend = await cleanup.add(starting);
      const gateway = await cleanup.add(plane.start({ target: backend.target, policy: "charge" }));
      expect((await upload(gateway.port)).body).toBe("stored");
      expect(seen.bytes).toBe(SIZE);
      expect(await gateway.charged()).toBe(PUT + QUANTA + 1);
    });

    it("passes on a dry run", async () => {
      const { seen, starting } = startCountingBackend();
      const backend = await cleanup.add(starting);
      const gateway = await cleanup.add(plane.start({ target: backend.target, policy: "cut", dryRun: true }));
      expect((await upload(gateway.port)).body).toBe("stored");
      expect(seen.bytes).toBe(SIZE);
    });
  });

  describe.each<Framing>(["chunked", "ended by close"])("a response above the burst, %s", (framing) => {
    it("with `cut` is aborted when the tokens are spent, and charged for what has passed", async () => {
      const backend = await cleanup.add(startSendingBackend(framing));
      const gateway = await cleanup.add(plane.start({ target: backend.target, policy: "cut" }));
      const got = await download(gateway.port);
      expect(await got.end).toBe("broken");
      expect(got.bytes).toBeLessThan((BURST - GET + 1) * QUANTUM);
      const charged = await gateway.charged();
      expect(charged).toBeLessThanOrEqual(BURST + 1);
      expect(charged).toBeGreaterThanOrEqual(price(GET, got.bytes));
    });

    it("with `delay` stands still while there are no tokens, arrives completely, and is charged exactly", async () => {
      const backend = await cleanup.add(startSendingBackend(framing));
      const gateway = await cleanup.add(plane.start({ target: backend.target, policy: "delay" }));
      const got = await download(gateway.port);
      expectPaid(await standstill(() => got.bytes, BURST - GET), BURST - GET);
      await refillUntil(gateway, () => got.bytes === SIZE);
      expect(await got.end).toBe("complete");
      expect(await gateway.charged()).toBe(GET + QUANTA);
    });

    it("with `delay` is aborted after body_idle_ms without tokens", async () => {
      const backend = await cleanup.add(startSendingBackend(framing));
      const gateway = await cleanup.add(plane.start({ target: backend.target, policy: "delay", bodyIdleMs: 500 }));
      const got = await download(gateway.port);
      expect(await got.end).toBe("broken");
      expectPaid(got.bytes, BURST - GET);
    });

    it("with `charge` arrives completely and leaves a debt", async () => {
      const backend = await cleanup.add(startSendingBackend(framing));
      const gateway = await cleanup.add(plane.start({ target: backend.target, policy: "charge" }));
      const got = await download(gateway.port);
      expect(await got.end).toBe("complete");
      expect(got.bytes).toBe(SIZE);
      expect(await gateway.charged()).toBe(GET + QUANTA);
    });

    it("arrives completely if the backend has closed its connection while the last bytes were held back", async () => {
      const size = BURST * QUANTUM;
      const backend = await cleanup.add(startSendingBackend(framing, size));
      const gateway = await cleanup.add(plane.start({ target: backend.target, policy: "delay" }));
      const got = await download(gateway.port);
      await standstill(() => got.bytes, BURST - GET);
      expect(got.bytes).toBeLessThan(size);
      gateway.refill(10);
      expect(await got.end).toBe("complete");
      expect(got.bytes).toBe(size);
      expect(await gateway.charged()).toBe(GET + BURST);
    });
  });

  describe("a body of one quantum without a length", () => {
    it("is never held back, and charged by the settlement", async () => {
      const { starting } = startCountingBackend();
      const backend = await cleanup.add(starting);
      const gateway = await cleanup.add(plane.start({ target: backend.target, policy: "cut" }));
      for (let i = 0; i < BURST - PUT; i++) await fetchReply(gateway.port, "/", { method: "HEAD" });
      expect((await upload(gateway.port, QUANTUM - 10)).status).toBe(200);
      expect(await gateway.charged()).toBe(BURST + 1);
    });
  });

  describe("a backend that resets its connection while its response is held back", () => {
    it("breaks only this response", async () => {
      const sockets: Socket[] = [];
      const backend = await cleanup.add(
        startRawBackend((socket) => {
          sockets.push(socket);
          socket.once("data", () => {
            socket.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
            socket.write(Buffer.alloc(BURST * QUANTUM));
          });
        }),
      );
      const gateway = await cleanup.add(
        plane.start({
          target: backend.target,
          policy: "delay",
          ...(plane.missesResets === true ? { bodyIdleMs: 2_000 } : {}),
        }),
      );
      const got = await download(gateway.port);
      await standstill(() => got.bytes, BURST - GET);
      sockets[0]!.resetAndDestroy();
      expect(await got.end).toBe("broken");
      expect((await fetchReply(gateway.port, "/", { method: "PUT" })).status).toBe(429);
    });
  });
}
