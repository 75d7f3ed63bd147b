/** WebSockets through the proxy: handshake headers, and all kinds of frames arrive unchanged in both directions. */
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { afterEach, describe, expect, it } from "vitest";
import type { RawData, WebSocket } from "ws";
import { valuesIn } from "../../../support/http-backend.js";
import { fetchReply, openRaw } from "../../../support/http-client.js";
import { admitted, createCleanup } from "../../../support/http-proxy.js";
import { waitFor } from "../../../support/wait-for.js";
import { startRawUpgradeBackend, startWebSocketBackend, switching, upgradeHead } from "../../../support/ws-backend.js";
import { closeOf, openSocket, startUpgradingProxy } from "../../../support/ws-proxy.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

const MIB = 1_048_576;

async function next(socket: WebSocket): Promise<[data: Buffer, isBinary: boolean]> {
  const [data, isBinary] = (await once(socket, "message")) as [RawData, boolean];
  return [data as Buffer, isBinary];
}

describe("a WebSocket", () => {
  it("is opened on the pod of its slot, with the client's headers and the proxy's forwarding headers", async () => {
    const backends = [
      await cleanup.add(startWebSocketBackend()),
      await cleanup.add(startWebSocketBackend((socket) => socket.send("hello"))),
    ];
    const { port, slots, admission } = await cleanup.add(
      startUpgradingProxy({
        targets: backends.map(({ target }) => target),
        place: ({ pods }) => pods[1]!,
        decide: () => admitted({ "X-RateLimit-Remaining": "7" }),
      }),
    );
    const socket = await openSocket(port, {
      path: "/chat?room=1",
      protocols: ["one", "two"],
      headers: { "x-own": "yes", "x-forwarded-for": "192.0.2.1" },
    });
    expect(slots.asked).toEqual([{ app: "the-app", route: "everything", pods: backends.map(({ target }) => target) }]);
    expect(admission.arrivals).toMatchObject([{ method: "UPGRADE", contentLength: 0, remoteAddress: "127.0.0.1" }]);
    expect(admission.arrivals[0]!.headerValues("x-own")).toEqual(["yes"]);
    expect(backends.map((backend) => backend.open())).toEqual([0, 1]);
    const { url, rawHeaders } = backends[1]!.requests[0]!;
    expect(url).toBe("/chat?room=1");
    expect(valuesIn(rawHeaders, "x-own")).toEqual(["yes"]);
    expect(valuesIn(rawHeaders, "x-forwarded-for")).toEqual(["127.0.0.1"]);
    expect(valuesIn(rawHeaders, "via")).toEqual(["1.1 tollgate"]);
    expect(valuesIn(rawHeaders, "host")).toEqual([`127.0.0.1:${port}`]);
    expect(valuesIn(rawHeaders, "sec-websocket-version")).toEqual(["13"]);
    expect(socket.protocol).toBe("one");
    socket.close();
    await slots.allFree();
    expect((await fetchReply(port)).body, "plain requests use the same route").toBe("plain");
  });

  it("has the headers of the decision, the slot and the backend in its 101 response", async () => {
    const backend = await cleanup.add(
      startRawUpgradeBackend((socket, head) =>
        socket.write(switching(head).replace("\r\n\r\n", "\r\nX-RateLimit-Remaining: 9\r\nX-B: b\r\n\r\n")),
      ),
    );
    const { port } = await cleanup.add(
      startUpgradingProxy({
        targets: [backend.target],
        decide: () => admitted({ "X-RateLimit-Remaining": "7" }),
      }),
    );
    const client = await openRaw(port);
    client.write(upgradeHead());
    const text = await client.until((received) => received.includes("\r\n\r\n"));
    expect(text).toMatch(/^HTTP\/1\.1 101 Switching Protocols\r\n/);
    for (const line of ["X-RateLimit-Remaining: 7", "X-Slot: 1", "X-B: b", "Connection: Upgrade", "Upgrade: websocket"])
      expect(text).toContain(`\r\n${line}\r\n`);
    expect(text).not.toContain(": 9");
    expect(text).toContain("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    client.socket.destroy();
  });

  it("loses no byte that is sent directly after the request head or the response head", async () => {
    const seen: Buffer[] = [];
    const backend = await cleanup.add(
      startRawUpgradeBackend((socket, head, rest) => {
        seen.push(rest);
        socket.on("data", (chunk) => seen.push(chunk));
        socket.write(`${switching(head)}first words`);
      }),
    );
    const { port, slots } = await cleanup.add(startUpgradingProxy({ targets: [backend.target] }));
    const client = await openRaw(port);
    const early = randomBytes(300_000).toString("latin1");
    client.write(`${upgradeHead()}${early}`);
    await client.until((text) => text.endsWith("\r\n\r\nfirst words"));
    client.write("later");
    await waitFor("all bytes", () => Buffer.concat(seen).length === 300_005);
    expect(Buffer.concat(seen).toString("latin1")).toBe(`${early}later`);
    client.socket.destroy();
    await slots.allFree();
  });

  it("forwards frames of all sizes and types, fragmented messages, pings and pongs", async () => {
    const backend = await cleanup.add(startWebSocketBackend());
    const { port } = await cleanup.add(startUpgradingProxy({ targets: [backend.target] }));
    const socket = await openSocket(port);
    for (const size of [0, 1, 125, 126, 127, 65_535, 65_536, 65_537, MIB, 5 * MIB + 3]) {
      const data = randomBytes(size);
      socket.send(data);
      const [echoed, isBinary] = await next(socket);
      expect(isBinary).toBe(true);
      expect(echoed.equals(data), String(size)).toBe(true);
    }
    socket.send("Grüße, 世界");
    expect(await next(socket)).toEqual([Buffer.from("Grüße, 世界"), false]);
    for (const fragments of [
      ["", ""],
      ["a", "", "b"],
      ["x".repeat(70_000), "y", "z".repeat(MIB)],
    ]) {
      for (const [at, fragment] of fragments.entries()) socket.send(fragment, { fin: at === fragments.length - 1 });
      expect((await next(socket))[0].toString()).toBe(fragments.join(""));
    }
    const pong = once(socket, "pong");
    socket.ping("are you there?");
    expect(String((await pong)[0])).toBe("are you there?");
    const server = [...backend.server.clients][0]!;
    const answered = once(server, "pong");
    server.ping("and you?");
    expect(String((await answered)[0])).toBe("and you?");
    socket.close();
  });

  it("forwards compressed messages unchanged", async () => {
    const backend = await cleanup.add(startWebSocketBackend(undefined, { perMessageDeflate: { threshold: 0 } }));
    const { port } = await cleanup.add(startUpgradingProxy({ targets: [backend.target] }));
    const socket = await openSocket(port, { perMessageDeflate: { threshold: 0 } });
    expect(socket.extensions).toContain("permessage-deflate");
    for (const data of [Buffer.alloc(MIB, "abc"), randomBytes(100_000), Buffer.alloc(0)]) {
      socket.send(data);
      expect((await next(socket))[0].equals(data)).toBe(true);
    }
    socket.close();
  });

  it.each([1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999])(
    "forwards the close code and reason of either end: %i",
    async (code) => {
      const backend = await cleanup.add(
        startWebSocketBackend((socket) => {
          socket.on("message", (data) => socket.close(code, `because ${String(data)}`));
        }),
      );
      const { port, slots } = await cleanup.add(startUpgradingProxy({ targets: [backend.target] }));
      const byBackend = await openSocket(port);
      byBackend.send("of you");
      expect(await closeOf(byBackend)).toEqual({ code, reason: "because of you" });
      const byClient = await openSocket(port);
      const closed = closeOf([...backend.server.clients].at(-1)!);
      byClient.close(code, "ü".repeat(61));
      expect(await closed).toEqual({ code, reason: "ü".repeat(61) });
      await slots.allFree();
      expect(backend.open()).toBe(0);
    },
  );

  it("forwards 64 MiB of random frames in both directions at once, unchanged", async () => {
    const backend = await cleanup.add(startWebSocketBackend());
    const { port, admission } = await cleanup.add(startUpgradingProxy({ targets: [backend.target] }));
    const sockets = await Promise.all([openSocket(port), openSocket(port)]);
    await Promise.all(
      sockets.map(async (socket) => {
        const [sent, received] = [createHash("sha256"), createHash("sha256")];
        let bytes = 0;
        let expected = 0;
        socket.on("message", (data: Buffer) => {
          received.update(data);
          bytes += data.length;
        });
        const block = randomBytes(4 * MIB);
        for (let n = 0; expected < 32 * MIB; n++) {
          const size = n % 7 === 0 ? MIB : Math.floor(Math.random() * 100_000);
          const data = block.subarray(n % 1000, (n % 1000) + size);
          sent.update(data);
          expected += size;
          await new Promise((done) => socket.send(data, done));
        }
        await waitFor("the last byte", () => bytes === expected);
        expect(received.digest("hex")).toBe(sent.digest("hex"));
        socket.close();
      }),
    );
    const { requestBytes, responseBytes } = await admission.settlement(1);
    // Each direction is settled for itself, including framing.
    expect(requestBytes).toBeGreaterThan(32 * MIB);
    expect(responseBytes).toBeGreaterThan(32 * MIB);
  });
});

describe("another protocol", () => {
  it("is forwarded if the route allows it, and each half can be closed separately", async () => {
    const backend = await cleanup.add(
      startRawUpgradeBackend((socket, head) => {
        expect(head).toMatch(/\r\nupgrade: Tcp\/2\r\n/);
        expect(head).toMatch(/\r\ncontent-length: 0\r\n/);
        expect(head).not.toMatch(/transfer-encoding/i);
        socket.write(switching(head, "tcp/2"));
        let text = "";
        socket.on("data", (chunk) => {
          text += chunk;
        });
        // The backend replies only after the client has closed its half.
        socket.on("end", () => socket.end(`you said ${text}`));
        (socket as { allowHalfOpen: boolean }).allowHalfOpen = true;
      }),
    );
    const { port, slots } = await cleanup.add(
      startUpgradingProxy({ targets: [backend.target], connections: { protocols: ["websocket", "TCP"] } }),
    );
    const client = await openRaw(port);
    client.write(upgradeHead({ protocol: "h2c, Tcp/2", method: "POST" }));
    await client.until((received) => received.includes("\r\n\r\n"));
    client.socket.end("something");
    const text = await client.until((received) => received.endsWith("you said something"));
    expect(text).toContain("\r\nUpgrade: tcp/2\r\n");
    await slots.allFree();
  });
});
