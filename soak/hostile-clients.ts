/** Clients that occupy connections, or send what no client should, from addresses of their own. */
import { connect, type Socket } from "node:net";
import { WebSocket } from "ws";
import { pause } from "../test/support/wait-for.js";
import type { Hostile, HostileContext } from "./hostile-actor.js";
import { HOSTILE_APP, planeNames, SOCKET_APP } from "./world.js";

/** More than the open files of a service. */
const IDLE_CONNECTIONS = 1_200;
const UPLOADS_PER_ADDRESS = 256;
const HOARDED_SOCKETS = 50;
const ROUND_MS = 250;

interface Client {
  localAddress: string;
  socket: Socket;
}

function open({ world }: HostileContext, plane: (typeof planeNames)[number], localAddress: string): Client {
  const { hostname, port } = new URL(world.urlOf(plane));
  const socket = connect({ host: hostname, port: Number(port), localAddress });
  socket.on("error", () => socket.destroy());
  socket.resume();
  return { localAddress, socket };
}

/** Opens connections, does something with each of them in every round, and replaces those that were closed. */
async function occupy(
  context: HostileContext,
  addresses: string[],
  each: number,
  act: (socket: Socket, isNew: boolean) => void,
): Promise<void> {
  const planes = planeNames;
  let clients: (Client & { plane: (typeof planeNames)[number] })[] = [];
  while (!context.isOver()) {
    for (const { socket } of clients) if (!socket.destroyed) act(socket, false);
    clients = clients.filter(({ socket }) => !socket.destroyed);
    for (const plane of planes) {
      for (const localAddress of addresses) {
        const has = clients.filter((client) => client.plane === plane && client.localAddress === localAddress).length;
        // A tenth at a time, so that the machine is not busy with connecting only.
        for (let i = has; i < Math.min(each, has + each / 10); i++) {
          const client = open(context, plane, localAddress);
          act(client.socket, true);
          clients.push({ ...client, plane });
        }
      }
    }
    await pause(ROUND_MS);
  }
  for (const { socket } of clients) socket.destroy();
}

/** Opens a connection for each text, sends it, and closes the connection after a while. */
async function sendTexts(context: HostileContext, perRound: number, text: () => string): Promise<void> {
  while (!context.isOver()) {
    const clients = planeNames.flatMap((plane) =>
      Array.from({ length: perRound }, () => open(context, plane, "127.0.3.4")),
    );
    for (const { socket } of clients) socket.write(text(), "latin1");
    await pause(ROUND_MS);
    for (const { socket } of clients) socket.destroy();
  }
}

const pick = <T>(random: () => number, items: readonly T[]): T => items[Math.floor(random() * items.length)]!;

const head = (line: string, ...headers: string[]) => `${[line, "Host: a", ...headers].join("\r\n")}\r\n\r\n`;

const malformed = [
  "\r\n\r\n\r\n",
  "GET\r\n\r\n",
  "\x16\x03\x01\x02\x00\x01\x00\x01",
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x01\x00\x00\x00\x00",
  "GET / HTTP/9.9\r\nHost: a\r\n\r\n",
  head("POST / HTTP/1.1", "Content-Length: -5"),
  head("POST / HTTP/1.1", "Content-Length: 1e3"),
  head("POST / HTTP/1.1", "Content-Length: 5", "Content-Length: 6"),
  head("POST / HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked"),
  head("POST / HTTP/1.1", "Transfer-Encoding : chunked"),
  `${head("POST / HTTP/1.1", "Transfer-Encoding: chunked")}zz\r\n`,
  head("GET / HTTP/1.1", "X-App-Id: a\x00b"),
  head("GET / HTTP/1.1", "X-App-Id: {}", "X-App-Id: other"),
  head("GET / HTTP/1.1", "X-App-Id: \x1b[2J"),
  head("GET / HTTP/1.1", " folded: x"),
];

const spellings = [
  "/%2f%2e%2e/limited/",
  "//limited/x",
  "/public/..%2flimited/",
  "/limited/%c3%a9",
  "/limited/%C3%A9;x=1",
  "/LIMITED/",
  "/limited/#x",
  "/limited/%00",
  "/limited/%zz",
  "/./limited/../limited/./",
  "http://other.example/limited/",
  "*",
];

export const hostileClients: readonly Hostile[] = [
  {
    name: "client opens idle connections",
    effects: {},
    play: (context) => occupy(context, ["127.0.3.2"], IDLE_CONNECTIONS, () => {}),
  },
  {
    name: "clients upload a byte at a time",
    effects: {},
    play: (context) =>
      occupy(context, ["127.0.3.5", "127.0.3.6"], UPLOADS_PER_ADDRESS, (socket, isNew) => {
        if (isNew) socket.write(head("POST / HTTP/1.1", `X-App-Id: ${HOSTILE_APP}`, "Content-Length: 100000"));
        else socket.write("x");
      }),
  },
  {
    name: "clients send headers a byte at a time",
    effects: {},
    play: (context) =>
      occupy(context, ["127.0.3.7"], 100, (socket, isNew) => {
        socket.write(isNew ? "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: " : "x");
      }),
  },
  {
    name: "client hoards WebSockets",
    effects: { hoardsSockets: true },
    async play(context) {
      const sockets = new Set<WebSocket>();
      while (!context.isOver()) {
        for (const plane of planeNames) {
          if (sockets.size >= HOARDED_SOCKETS) break;
          const url = `${context.world.urlOf(plane).replace("http", "ws")}/ws/`;
          const socket = new WebSocket(url, { headers: { "x-app-id": SOCKET_APP }, localAddress: "127.0.3.3" });
          sockets.add(socket);
          for (const event of ["error", "close"]) socket.on(event, () => sockets.delete(socket));
        }
        await pause(20);
      }
      for (const socket of sockets) socket.terminate();
    },
  },
  {
    name: "clients send malformed requests",
    effects: {},
    play: (context) => sendTexts(context, 10, () => pick(context.random, malformed)),
  },
  {
    name: "clients spell paths in many ways",
    effects: {},
    play: (context) =>
      sendTexts(context, 10, () => head(`GET ${pick(context.random, spellings)} HTTP/1.1`, `X-App-Id: ${HOSTILE_APP}`)),
  },
  {
    name: "clients send floods of headers",
    effects: {},
    play: (context) =>
      sendTexts(context, 4, () =>
        head("GET / HTTP/1.1", ...Array.from({ length: 200 }, (_, i) => `X-Flood-${i}: ${"x".repeat(2_000)}`)),
      ),
  },
  {
    name: "clients abort requests, to flood the log",
    effects: {},
    async play(context) {
      while (!context.isOver()) {
        const clients = planeNames.flatMap((plane) =>
          Array.from({ length: 100 }, () => open(context, plane, "127.0.3.8")),
        );
        for (const { socket } of clients) socket.end(head("POST / HTTP/1.1", "Content-Length: 5, 6", "X-App-Id: \x01"));
        await pause(ROUND_MS);
        for (const { socket } of clients) socket.resetAndDestroy();
      }
    },
  },
];
