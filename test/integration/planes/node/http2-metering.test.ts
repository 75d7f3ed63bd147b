/** HTTP/2 bodies without a declared length are charged while they pass, as over HTTP/1.1: the tokens are counted in the store. */
import { once } from "node:events";
import type { RequestListener } from "node:http";
import { connect, constants } from "node:http2";
import { Readable } from "node:stream";
import { afterEach, describe, expect, it } from "vitest";
import { createTestAuthority } from "../../../support/certificates.js";
import { startBackend } from "../../../support/http-backend.js";
import { createCleanup } from "../../../support/http-proxy.js";
import { answerOf, http2, serverTls } from "../../../support/http2-proxy.js";
import { BURST, type MeteredGatewayOptions, QUANTUM, startMeteredGateway } from "../../../support/metered-gateway.js";
import { waitFor } from "../../../support/wait-for.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

/** Far above the burst of 20 tokens. */
const QUANTA = 60;
const SIZE = QUANTA * QUANTUM;
const PUT = 5;
const GET = 1;

function* chunks(size: number): Generator<Buffer> {
  for (let sent = 0; sent < size; sent += 50_000) yield Buffer.alloc(Math.min(50_000, size - sent), "x");
}

async function start(listener: RequestListener, policy: MeteredGatewayOptions["policy"]) {
  const authority = createTestAuthority();
  const backend = await cleanup.add(startBackend(listener));
  const gateway = await cleanup.add(startMeteredGateway({ target: backend.target, policy, tls: serverTls(authority) }));
  const session = connect(`https://localhost:${gateway.port}`, { ca: authority.pem });
  session.on("error", () => {});
  const stop = async () => {
    session.destroy();
    authority.remove();
  };
  await cleanup.add(Promise.resolve({ stop }));
  return { gateway, session };
}

/** Counts what arrives. */
function counting() {
  const seen = { bytes: 0, aborted: 0 };
  const listener: RequestListener = (request, response) => {
    request.on("data", (chunk: Buffer) => (seen.bytes += chunk.length));
    request.on("error", () => seen.aborted++);
    request.on("end", () => response.end("stored"));
  };
  return { seen, listener };
}

const sending: RequestListener = (_, response) => void Readable.from(chunks(SIZE)).pipe(response);
const price = (base: number, bytes: number) => base + Math.ceil(bytes / QUANTUM);

describe("a stream above the burst", () => {
  it("with `cut`: the upload gets 429 when the tokens are spent, pays for what has passed, and the connection stays", async () => {
    const { seen, listener } = counting();
    const { gateway, session } = await start(listener, "cut");
    const stream = session.request({ ":method": "PUT" });
    Readable.from(chunks(SIZE)).pipe(stream);
    const answer = await answerOf(stream);
    expect(answer).toMatchObject({ status: 429, code: constants.NGHTTP2_NO_ERROR });
    expect(JSON.parse(answer.body)).toMatchObject({ reason: "quota_exhausted" });
    await waitFor("the backend to see the abort", () => seen.aborted === 1);
    expect(seen.bytes).toBeLessThan((BURST - PUT + 1) * QUANTUM);
    expect(await http2(session, {})).toMatchObject({ status: 429 });
    expect(gateway.limited()).toEqual({ aborted: 1 });
    session.destroy();
    const charged = await gateway.charged();
    expect(charged).toBeLessThanOrEqual(BURST + 1);
    expect(charged).toBeGreaterThanOrEqual(price(PUT, seen.bytes));
  });

  it("with `cut`: the response is reset when the tokens are spent, and pays for what has passed", async () => {
    const { gateway, session } = await start(sending, "cut");
    const answer = await http2(session, {});
    expect([answer.status, answer.code]).toEqual([200, constants.NGHTTP2_INTERNAL_ERROR]);
    expect(answer.body.length).toBeLessThan((BURST - GET + 1) * QUANTUM);
    session.destroy();
    const charged = await gateway.charged();
    expect(charged).toBeLessThanOrEqual(BURST + 1);
    expect(charged).toBeGreaterThanOrEqual(price(GET, answer.body.length));
  });

  it("with `delay`: waits for tokens, arrives completely, and is charged exactly", async () => {
    const { gateway, session } = await start(sending, "delay");
    let bytes = 0;
    const stream = session.request({});
    stream.on("data", (chunk: Buffer) => (bytes += chunk.length));
    await waitFor("the first tokens to be used", () => gateway.limited().delayed === 1);
    expect(bytes).toBeLessThan((BURST - GET + 1) * QUANTUM);
    const ended = once(stream, "end");
    const refilling = setInterval(() => gateway.refill(10), 20);
    await ended;
    clearInterval(refilling);
    expect(bytes).toBe(SIZE);
    session.destroy();
    expect(await gateway.charged()).toBe(GET + QUANTA);
  });

  it("with `charge`: passes in both directions and leaves a debt", async () => {
    const { seen, listener } = counting();
    const { gateway, session } = await start(listener, "charge");
    const stream = session.request({ ":method": "PUT" });
    Readable.from(chunks(SIZE)).pipe(stream);
    expect(await answerOf(stream)).toMatchObject({ status: 200, body: "stored" });
    expect(seen.bytes).toBe(SIZE);
    session.destroy();
    expect(await gateway.charged()).toBe(PUT + QUANTA + 1);
  });
});

it("a stream that the client resets pays for the bytes that have passed, once", async () => {
  const { seen, listener } = counting();
  const { gateway, session } = await start(listener, "charge");
  const stream = session.request({ ":method": "PUT" });
  stream.on("error", () => {});
  stream.write(Buffer.alloc(3 * QUANTUM));
  await waitFor("the bytes to arrive", () => seen.bytes === 3 * QUANTUM);
  // Without the end of the body.
  stream.destroy();
  await waitFor("the backend to see the abort", () => seen.aborted === 1);
  session.destroy();
  expect(await gateway.charged()).toBe(PUT + 3);
});
