/** Clients that do to a proxy what clients do: HTTP/1 and HTTP/2, bodies of any kind, upgrades, and leaving at any moment. */
import { request as httpRequest, type RequestOptions } from "node:http";
import { type ClientHttp2Session, connect as connectHttp2, constants } from "node:http2";
import { connect as connectTcp } from "node:net";
import { WebSocket } from "ws";
import { pause } from "../test/support/wait-for.js";

const HTTP1_CLIENTS = 12;
const HTTP2_CLIENTS = 3;
const HTTP2_STREAMS = 6;
const SOCKET_CLIENTS = 6;
const RAW_CLIENTS = 2;
const LONGEST_MS = 8_000;
const MOST_CHUNKS = 12;
const MOST_CHUNK_BYTES = 60_000;
const APPS = ["default", "few", "cut", "delay", "closed", "unknown", "a{b}"];
const PATHS = ["/", "/priced/a", "/limited/a", "/limited/..%2fb", "/ws/", `/long?${"q".repeat(2_000)}`];

export function startEnvoyClients({ port, random }: { port: number; random: () => number }) {
  const counts: Record<string, number> = {};
  let running = true;
  const count = (what: string) => {
    counts[what] = (counts[what] ?? 0) + 1;
  };
  const upTo = (most: number) => Math.floor(random() * (most + 1));
  const one = <T>(list: readonly T[]): T => list[upTo(list.length - 1)]!;
  const headers = (): Record<string, string> => ({
    "x-app-id": one(APPS),
    "x-user-id": `user-${upTo(50)}`,
    ...(random() < 0.1 ? { "x-forwarded-for": `10.0.${upTo(200)}.${upTo(200)}, 10.1.1.1` } : {}),
  });

  async function exchange(): Promise<void> {
    const method = one(["GET", "HEAD", "POST", "PUT", "DELETE"]);
    const options: RequestOptions = { port, method, path: one(PATHS), headers: headers(), agent: false };
    const sent = httpRequest(options);
    const aborts = random() < 0.25;
    const outcome = new Promise<string>((resolve) => {
      sent.on("response", (response) => {
        response.on("error", () => resolve("broken off"));
        response.on("end", () => resolve(String(response.statusCode)));
        response.on("close", () => resolve("broken off"));
        if (random() < 0.1) setTimeout(() => response.resume(), upTo(500));
        else response.resume();
      });
      sent.on("error", () => resolve("error"));
      sent.on("close", () => resolve("closed"));
      setTimeout(() => resolve("too long"), LONGEST_MS);
    });
    if (aborts) setTimeout(() => sent.destroy(), upTo(60));
    await send(
      method,
      (chunk) => sent.write(chunk),
      () => sent.destroyed,
    );
    sent.end();
    const result = await outcome;
    count(aborts && !/^\d/.test(result) ? "aborted" : result);
    sent.destroy();
  }

  /** A body in chunks of random sizes at random times, or none. */
  async function send(method: string, write: (chunk: Buffer) => void, isOver: () => boolean): Promise<void> {
    if (method === "GET" || method === "HEAD") return;
    for (let chunks = upTo(MOST_CHUNKS); chunks > 0 && !isOver(); chunks--) {
      write(Buffer.alloc(upTo(MOST_CHUNK_BYTES), "y"));
      if (random() < 0.5) await pause(upTo(15));
    }
  }

  async function stream(session: ClientHttp2Session): Promise<void> {
    const method = one(["GET", "POST"]);
    const sent = session.request(
      { ":path": one(PATHS), ":method": method, ...headers() },
      { endStream: method === "GET", waitForTrailers: method === "POST" && random() < 0.3 },
    );
    const outcome = new Promise<string>((resolve) => {
      let status = "";
      sent.on("response", (head) => {
        status = String(head[":status"]);
      });
      sent.on("wantTrailers", () => sent.sendTrailers({ "x-end": "yes" }));
      sent.on("error", () => undefined);
      sent.on("close", () => resolve(status === "" ? "reset" : status));
      setTimeout(() => resolve("too long"), LONGEST_MS);
    });
    if (random() < 0.3)
      setTimeout(() => sent.close(one([constants.NGHTTP2_CANCEL, constants.NGHTTP2_NO_ERROR])), upTo(60));
    sent.resume();
    await send(
      method,
      (chunk) => sent.write(chunk),
      () => sent.closed || sent.destroyed,
    );
    if (method === "POST" && !sent.closed) sent.end();
    count(await outcome);
    sent.close();
  }

  async function http2(): Promise<void> {
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    session.on("error", () => undefined);
    const lasts = upTo(3_000);
    const end = performance.now() + lasts;
    const streams = Array.from({ length: HTTP2_STREAMS }, async () => {
      while (running && performance.now() < end && !session.closed && !session.destroyed) {
        await stream(session).catch(() => count("error"));
        await pause(upTo(20));
      }
    });
    if (random() < 0.3) setTimeout(() => session.destroy(), lasts / 2);
    await Promise.all(streams);
    session.destroy();
    count("session");
  }

  async function socket(): Promise<void> {
    const client = new WebSocket(`ws://127.0.0.1:${port}/ws/?client=s`, {
      headers: headers(),
      handshakeTimeout: LONGEST_MS,
    });
    client.on("error", () => undefined);
    const outcome = new Promise<string>((resolve) => {
      client.once("open", () => resolve("socket"));
      client.once("unexpected-response", (attempt, response) => {
        resolve(`socket ${response.statusCode}`);
        attempt.destroy();
      });
      client.once("close", () => resolve("socket broken off"));
    });
    if (random() < 0.3) setTimeout(() => client.terminate(), upTo(30));
    const result = await outcome;
    count(result);
    if (result === "socket") {
      for (let messages = upTo(20); messages > 0 && client.readyState === WebSocket.OPEN; messages--) {
        client.send(Buffer.alloc(upTo(20_000)));
        await pause(upTo(50));
      }
      if (random() < 0.5) client.close();
    }
    client.terminate();
  }

  /** Begins of requests, several at once, rubbish; and then the connection is gone. */
  async function raw(): Promise<void> {
    const connection = connectTcp(port, "127.0.0.1");
    connection.on("error", () => undefined);
    connection.resume();
    const text = one([
      "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(10),
      "GET /ws/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc",
      "GET /limited/a HTTP/1.1\r\nHost: a\r\nX-User-Id: a\r\nX-User-Id: b\r\n\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    ]);
    connection.write(text.slice(0, random() < 0.5 ? text.length : upTo(text.length)));
    await pause(upTo(100));
    connection.destroy();
    count("raw");
  }

  const repeat = async (work: () => Promise<void>) => {
    while (running) {
      await work().catch(() => count("error"));
      await pause(upTo(20));
    }
  };
  const kinds: [number, () => Promise<void>][] = [
    [HTTP1_CLIENTS, exchange],
    [HTTP2_CLIENTS, http2],
    [SOCKET_CLIENTS, socket],
    [RAW_CLIENTS, raw],
  ];
  const loops = kinds.flatMap(([clients, work]) => Array.from({ length: clients }, () => repeat(work)));
  return {
    counts: () => counts,
    async stop(): Promise<void> {
      running = false;
      await Promise.all(loops);
    },
  };
}
