/** Bodies that each supported Envoy with the dynamic module holds back: what happens to them, to the stream and to Envoy. */
import { createHash, randomBytes } from "node:crypto";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { connect } from "node:http2";
import { Readable } from "node:stream";
import { afterEach, describe, expect, it } from "vitest";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { supportedEnvoys } from "../../../support/find-envoy.js";
import { startBackend } from "../../../support/http-backend.js";
import { json, open, openRaw, replyTo } from "../../../support/http-client.js";
import { createCleanup } from "../../../support/http-proxy.js";
import { answerOf, http2 } from "../../../support/http2-proxy.js";
import { type MeteredEnvoyOptions, startMeteredEnvoy } from "../../../support/metered-envoy.js";
import { BURST, QUANTUM } from "../../../support/metered-gateway.js";
import {
  chunks,
  download,
  GET,
  PUT,
  price,
  QUANTA,
  refillUntil,
  SIZE,
  standstill,
  startSendingBackend,
  upload,
} from "../../../support/metered-transfers.js";
import { waitFor } from "../../../support/wait-for.js";

const MIB = 1_048_576;
/** Far more than Envoy buffers. */
const LARGE = 64 * MIB;
const cleanup = createCleanup();
afterEach(() => cleanup.run());

describeEnvoy("bodies of unknown length with the dynamic module,", () => {
  describe.each(supportedEnvoys())("Envoy $version", ({ binary }) => {
    async function start(listener: RequestListener, options: Partial<MeteredEnvoyOptions> = {}) {
      const backend = await cleanup.add(startBackend(listener));
      return cleanup.add(startMeteredEnvoy({ target: backend.target, policy: "delay", binary, ...options }));
    }

    /** Without TLS: the client knows that Envoy speaks HTTP/2. */
    async function startHttp2(listener: RequestListener, options: Partial<MeteredEnvoyOptions> = {}) {
      const envoy = await start(listener, options);
      const session = connect(`http://127.0.0.1:${envoy.port}`);
      session.on("error", () => undefined);
      await cleanup.add(Promise.resolve({ stop: async () => session.destroy() }));
      return { envoy, session };
    }

    const hash = (data: Buffer) => createHash("sha256").update(data).digest("hex");

    it("arrive unchanged after they were held back, in both directions, with their trailers", async () => {
      const sent = randomBytes(SIZE);
      const seen = { hash: "", bytes: 0, trailers: {} as IncomingMessage["trailers"] };
      const envoy = await start(async (request, response) => {
        const parts: Buffer[] = [];
        for await (const part of request) {
          parts.push(part as Buffer);
          seen.bytes += (part as Buffer).length;
        }
        Object.assign(seen, { hash: hash(Buffer.concat(parts)), trailers: request.trailers });
        response.writeHead(200, { trailer: "x-end" });
        response.addTrailers({ "x-end": "of the response" });
        response.end(sent);
      });
      const request = open(envoy.port, { method: "PUT", headers: { trailer: "x-end", te: "trailers" } });
      const replied = replyTo(request);
      request.addTrailers({ "x-end": "of the request" });
      request.end(sent);
      await standstill(() => seen.bytes, BURST - PUT);
      const done = { reply: false };
      void replied.then(() => (done.reply = true));
      await refillUntil(envoy, () => done.reply);
      const reply = await replied;
      expect([hash(Buffer.from(reply.body, "latin1")), seen.hash]).toEqual([hash(sent), hash(sent)]);
      expect(await envoy.charged()).toBe(PUT + 2 * QUANTA);
    });

    it("do not fill the memory of Envoy while they are held back", async () => {
      const seen = { bytes: 0 };
      const envoy = await start((request, response) => {
        request.on("data", (chunk: Buffer) => (seen.bytes += chunk.length));
        if (request.method === "GET") Readable.from(chunks(LARGE)).pipe(response);
      });
      const before = await envoy.memory();
      const uploading = open(envoy.port, { method: "PUT" });
      uploading.on("error", () => undefined);
      Readable.from(chunks(LARGE)).pipe(uploading);
      await standstill(() => seen.bytes, BURST - PUT);
      envoy.refill(BURST);
      await standstill(() => seen.bytes, BURST - PUT + 10);
      expect((await envoy.memory()) - before).toBeLessThan(8 * MIB);
      uploading.destroy();
      const got = await download(envoy.port);
      await waitFor("the response to be held back", () => got.bytes > 0 || envoy.refill(1));
      expect((await envoy.memory()) - before).toBeLessThan(8 * MIB);
    });

    it("of clients that leave while they are held back are paid as far as they have passed", async () => {
      const seen = { bytes: 0, aborted: 0 };
      const count: RequestListener = (request) => {
        request.on("data", (chunk: Buffer) => (seen.bytes += chunk.length));
        request.on("error", () => seen.aborted++);
      };
      // Envoy does not notice it while it does not read: patience ends the stream.
      const envoy = await start(count, { bodyIdleMs: 2_000 });
      const request = open(envoy.port, { method: "PUT" });
      request.on("error", () => undefined);
      Readable.from(chunks(SIZE)).pipe(request);
      await standstill(() => seen.bytes, BURST - PUT);
      request.destroy();
      await waitFor("the backend to see the abort", () => seen.aborted === 1);
      const passed = seen.bytes;
      // Tokens for which the stream has waited belong to others now.
      envoy.refill(10);
      expect(await envoy.charged()).toBe(price(PUT, passed));
    });

    it("over HTTP/2 are delayed, but not other streams of the session", async () => {
      const { envoy, session } = await startHttp2((_, response) => void Readable.from(chunks(SIZE)).pipe(response));
      const stream = session.request({});
      const got = { bytes: 0, ended: false };
      stream.on("data", (chunk: Buffer) => (got.bytes += chunk.length));
      stream.on("end", () => (got.ended = true));
      const stopped = await standstill(() => got.bytes, BURST - GET - 2);
      expect(stopped).toBeLessThan((BURST - GET + 1) * QUANTUM);
      // A token may be left.
      const other = await http2(session, { ":method": "HEAD" });
      expect([200, 429]).toContain(other.status);
      await refillUntil(envoy, () => got.ended);
      expect(got.bytes).toBe(SIZE);
      session.destroy();
      expect(await envoy.charged()).toBe(GET + QUANTA + (other.status === 200 ? GET : 0));
    });

    it("over HTTP/2 with `cut`: an upload gets 429 and pays for what has passed", async () => {
      const seen = { bytes: 0 };
      const count: RequestListener = (request) => request.on("data", (chunk: Buffer) => (seen.bytes += chunk.length));
      const { envoy, session } = await startHttp2(count, { policy: "cut" });
      const stream = session.request({ ":method": "PUT" });
      stream.on("error", () => undefined);
      Readable.from(chunks(SIZE)).pipe(stream);
      const answer = await answerOf(stream);
      expect(answer.status).toBe(429);
      expect(JSON.parse(answer.body)).toMatchObject({ reason: "quota_exhausted" });
      expect(seen.bytes).toBeLessThan((BURST - PUT + 1) * QUANTUM);
      session.destroy();
      const charged = await envoy.charged();
      expect(charged).toBeLessThanOrEqual(BURST + 1);
      expect(charged).toBeGreaterThanOrEqual(price(PUT, seen.bytes));
    });

    it("of both directions at once are held back and continued together", async () => {
      const seen = { bytes: 0 };
      const echo: RequestListener = (request: IncomingMessage, response: ServerResponse) => {
        response.flushHeaders();
        request.on("data", (chunk: Buffer) => (seen.bytes += chunk.length));
        request.pipe(response);
      };
      const { envoy, session } = await startHttp2(echo);
      const stream = session.request({ ":method": "PUT" });
      const got = { bytes: 0, ended: false };
      stream.on("data", (chunk: Buffer) => (got.bytes += chunk.length));
      stream.on("end", () => (got.ended = true));
      Readable.from(chunks(SIZE)).pipe(stream);
      const stopped = await standstill(() => seen.bytes + got.bytes, BURST - PUT - 2);
      expect(stopped).toBeLessThan((BURST - PUT + 1) * QUANTUM);
      await refillUntil(envoy, () => got.ended);
      expect([seen.bytes, got.bytes]).toEqual([SIZE, SIZE]);
      session.destroy();
      expect(await envoy.charged()).toBe(PUT + 2 * QUANTA);
    });

    it("that are held back wait for a new script and continue under it", async () => {
      const backend = await cleanup.add(startSendingBackend("chunked"));
      const envoy = await cleanup.add(startMeteredEnvoy({ target: backend.target, policy: "delay", binary }));
      const got = await download(envoy.port);
      await standstill(() => got.bytes, BURST - GET);
      await envoy.replaceScript();
      await refillUntil(envoy, () => got.bytes === SIZE);
      expect(await got.end).toBe("complete");
      expect(await envoy.charged()).toBe(GET + QUANTA);
    });

    it("above request_limits.body_bytes get 413, and pay for what has passed", async () => {
      const seen = { bytes: 0, aborted: 0 };
      const count: RequestListener = (request) => {
        request.on("data", (chunk: Buffer) => (seen.bytes += chunk.length));
        request.on("error", () => seen.aborted++);
      };
      const envoy = await start(count, { policy: "charge", bodyBytes: 5 * QUANTUM });
      const reply = await upload(envoy.port);
      expect(reply.status).toBe(413);
      expect(json(reply)).toMatchObject({ reason: "body_too_large" });
      await waitFor("the backend to see the abort", () => seen.aborted === 1);
      expect(seen.bytes).toBeLessThanOrEqual(5 * QUANTUM);
      const charged = await envoy.charged();
      expect(charged).toBeGreaterThanOrEqual(price(PUT, seen.bytes));
      expect(charged).toBeLessThanOrEqual(PUT + 5);
    });

    it("of exactly request_limits.body_bytes pass", async () => {
      const envoy = await start((request, response) => void request.on("end", () => response.end("stored")).resume(), {
        policy: "charge",
        bodyBytes: 5 * QUANTUM,
      });
      expect((await upload(envoy.port, 5 * QUANTUM)).body).toBe("stored");
    });

    it("above request_limits.body_bytes are broken off after the response has begun", async () => {
      const envoy = await start((_, response) => void response.writeHead(200).write("begun"), {
        policy: "charge",
        bodyBytes: 5 * QUANTUM,
      });
      const client = await openRaw(envoy.port);
      client.write("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
      await client.until((text) => text.includes("begun"));
      client.socket.on("error", () => undefined);
      client.write(`${(10 * QUANTUM).toString(16)}\r\n${"x".repeat(10 * QUANTUM)}\r\n`);
      await waitFor("the connection to be closed", () => client.socket.destroyed);
    });
  });
});
