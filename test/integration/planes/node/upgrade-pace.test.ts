/** Backpressure on upgraded connections: the proxy reads no faster than the slower end, and does not buffer the difference. */
import { once } from "node:events";
import type { Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { openRaw } from "../../../support/http-client.js";
import { createCleanup } from "../../../support/http-proxy.js";
import { startProxyProcess } from "../../../support/http-proxy-process.js";
import { signal } from "../../../support/http-signal.js";
import { waitFor } from "../../../support/wait-for.js";
import { startRawUpgradeBackend, switching, upgradeHead } from "../../../support/ws-backend.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

const MIB = 1_048_576;
const SIZE = 200 * MIB;
/** Allowance for uncollected garbage; buffering what the sender sends would add 200 MiB. */
const GROWTH = 80 * MIB;

/** The header of one frame that is longer than all bytes sent, so that no payload is parsed as a frame header. */
const longFrame = Buffer.from([0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0]);
const chunk = Buffer.alloc(65_536, "x");

async function send(socket: Socket, size: number, sent: (bytes: number) => void): Promise<void> {
  for (let total = 0; total < size; total += chunk.length) {
    if (!socket.write(chunk)) await once(socket, "drain");
    sent(chunk.length);
  }
}

describe("an end that does not read", () => {
  it.each(["client", "backend"])(
    "pauses the other end, and receives everything when it resumes: the %s",
    async (slow) => {
      const accepted = signal<Socket>();
      const backend = await cleanup.add(
        startRawUpgradeBackend((socket, head) => {
          socket.write(switching(head));
          accepted.resolve(socket);
        }),
      );
      const proxy = await cleanup.add(startProxyProcess(backend.target));
      const client = await openRaw(proxy.port);
      client.write(upgradeHead());
      await client.until((text) => text.includes("\r\n\r\n"));
      client.socket.removeAllListeners("data");
      const [writer, reader] =
        slow === "client" ? [await accepted.promise, client.socket] : [client.socket, await accepted.promise];
      let sent = 0;
      let received = 0;
      reader.on("data", (bytes: Buffer) => {
        received += bytes.length;
      });
      writer.write(longFrame);
      await send(writer, 50 * MIB, () => undefined);
      await waitFor("the first part", () => received === 50 * MIB + longFrame.length);
      const { peakBytes: before } = await proxy.report();

      reader.pause();
      const all = send(writer, SIZE, (bytes) => {
        sent += bytes;
      });
      let last = -1;
      await waitFor(
        "the writer to stop",
        () => {
          const still = sent === last;
          last = sent;
          return still;
        },
        { everyMs: 300 },
      );
      expect(sent, "unread bytes are only in the socket buffers").toBeLessThan(SIZE / 2);
      reader.resume();
      await all;
      await waitFor("the rest", () => received === 50 * MIB + longFrame.length + SIZE);
      const { peakBytes, slotsHeld } = await proxy.report();
      expect(peakBytes - before).toBeLessThan(GROWTH);
      expect(slotsHeld).toBe(1);
      client.socket.destroy();
      await waitFor("the slot to be released", async () => (await proxy.report()).slotsHeld === 0);
      const { settled } = await proxy.report();
      expect(settled).toEqual([slow === "client" ? [0, received] : [received, 0]]);
    },
  );
});
