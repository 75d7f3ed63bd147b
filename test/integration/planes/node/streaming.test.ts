/** Bodies of any size are streamed in both directions with backpressure, and are not buffered as a whole. */
import { once } from "node:events";
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { afterEach, describe, expect, it } from "vitest";
import { startBackend } from "../../../support/http-backend.js";
import { open, replyTo } from "../../../support/http-client.js";
import { createCleanup, startProxy } from "../../../support/http-proxy.js";
import { startProxyProcess } from "../../../support/http-proxy-process.js";
import { signal } from "../../../support/http-signal.js";
import { waitFor } from "../../../support/wait-for.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

const MIB = 1_048_576;
const SIZE = 200 * MIB;
const WARM_UP = 100 * MIB;
/** Allowance for uncollected garbage; a buffered body would add 200 MiB. */
const GROWTH = 80 * MIB;

/** Yields `size` bytes from one reused chunk, so that the source itself needs no memory. */
function* bytes(size: number, taken = (_: number) => {}): Generator<Buffer> {
  const chunk = Buffer.alloc(65_536, "x");
  for (let sent = 0; sent < size; sent += chunk.length) {
    taken(sent);
    yield chunk;
  }
}

/** Waits until the flow stops because all buffers between the two ends are full. Returns the bytes moved by then. */
async function standstill(moved: () => number): Promise<number> {
  let last = -1;
  return waitFor(
    "the flow to stop",
    () => {
      const now = moved();
      const still = now === last;
      last = now;
      return still && now;
    },
    { everyMs: 200 },
  );
}

async function count(stream: Readable): Promise<number> {
  let size = 0;
  for await (const chunk of stream) size += (chunk as Buffer).length;
  return size;
}

async function download(port: number, size: number): Promise<void> {
  const request = open(port, { path: `/${size}` });
  request.end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  expect(await count(response)).toBe(size);
}

async function upload(port: number, size: number, headers: OutgoingHttpHeaders): Promise<void> {
  const request = open(port, { method: "PUT", headers });
  const replied = replyTo(request);
  await pipeline(Readable.from(bytes(size)), request);
  expect((await replied).body).toBe(String(size));
}

describe("a body of 200 MiB", () => {
  it.each([true, false])("reaches the client with constant memory (Content-Length: %s)", async (declared) => {
    const backend = await cleanup.add(
      startBackend((request, response) => {
        const size = Number(request.url!.slice(1));
        response.writeHead(200, declared ? { "content-length": size } : {});
        void pipeline(Readable.from(bytes(size)), response);
      }),
    );
    const proxy = await cleanup.add(startProxyProcess(backend.target));
    // After a first body all pools and buffers have reached their final size.
    await download(proxy.port, WARM_UP);
    const { peakBytes: before } = await proxy.report();
    await download(proxy.port, SIZE);
    const { peakBytes, settled } = await proxy.report();
    expect(peakBytes - before).toBeLessThan(GROWTH);
    expect(settled).toEqual([
      [0, WARM_UP],
      [0, SIZE],
    ]);
  });

  it.each([true, false])("reaches the backend with constant memory (Content-Length: %s)", async (declared) => {
    const backend = await cleanup.add(
      startBackend(async (request, response) => {
        response.end(String(await count(request)));
      }),
    );
    const proxy = await cleanup.add(startProxyProcess(backend.target));
    await upload(proxy.port, WARM_UP, declared ? { "content-length": WARM_UP } : {});
    const { peakBytes: before } = await proxy.report();
    await upload(proxy.port, SIZE, declared ? { "content-length": SIZE } : {});
    const { peakBytes, settled } = await proxy.report();
    expect(peakBytes - before).toBeLessThan(GROWTH);
    expect(settled).toEqual([
      [WARM_UP, 9],
      [SIZE, 9],
    ]);
  });
});

describe("backpressure", () => {
  it("a client that does not read pauses the backend, and receives everything when it resumes", async () => {
    let offered = 0;
    const size = 100 * MIB;
    const backend = await cleanup.add(
      startBackend((_, response) => {
        response.writeHead(200, { "content-length": size });
        const source = bytes(size, (sent) => {
          offered = sent;
        });
        void pipeline(Readable.from(source), response);
      }),
    );
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const request = open(port);
    request.end();
    const [response] = (await once(request, "response")) as [IncomingMessage];
    expect(await standstill(() => offered)).toBeLessThan(size / 2);
    expect(admission.settled).toHaveLength(0);
    expect(await count(response)).toBe(size);
    expect(await admission.settlement()).toMatchObject({ responseBytes: size });
  });

  it("a backend that does not read pauses the client, and receives everything when it resumes", async () => {
    const arrived = signal<IncomingMessage>();
    const size = 100 * MIB;
    const backend = await cleanup.add(
      startBackend(async (request, response) => {
        arrived.resolve(request);
        await once(request, "go");
        response.end(String(await count(request)));
      }),
    );
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const request = open(port, { method: "POST", headers: { "content-length": size } });
    const replied = replyTo(request);
    let taken = 0;
    const source = bytes(size, (sent) => {
      taken = sent;
    });
    const sent = pipeline(Readable.from(source), request);
    const seen = await arrived.promise;
    expect(await standstill(() => taken)).toBeLessThan(size / 2);
    seen.emit("go");
    await sent;
    expect((await replied).body).toBe(String(size));
    expect(await admission.settlement()).toMatchObject({ requestBytes: size });
  });

  it("both directions are streamed at the same time", async () => {
    const backend = await cleanup.add(
      startBackend((request, response) => {
        response.writeHead(200);
        request.pipe(response);
      }),
    );
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const request = open(port, { method: "POST" });
    const size = 20 * MIB;
    const sent = pipeline(Readable.from(bytes(size)), request);
    const [response] = (await once(request, "response")) as [IncomingMessage];
    expect(await count(response)).toBe(size);
    await sent;
    expect(await admission.settlement()).toMatchObject({ requestBytes: size, responseBytes: size });
  });
});
