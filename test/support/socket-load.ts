/** WebSocket clients that come and go, from several loopback addresses, and keep trying when the limit refuses them. */
import { WebSocket } from "ws";
import { pause } from "./wait-for.js";

export interface SocketLoadOptions {
  /** The proxies to choose from, by turns. Without any, clients wait. */
  urls(): string[];
  clients: number;
}

export function startSocketLoad({ urls, clients }: SocketLoadOptions) {
  const failures: string[] = [];
  const open = new Set<WebSocket>();
  let running = true;
  let opened = 0;
  let next = 0;

  async function client(number: number): Promise<void> {
    while (running) {
      const list = urls();
      if (list.length === 0) {
        await pause(50);
        continue;
      }
      const url = list[next++ % list.length]!;
      const socket = new WebSocket(url.replace(/^http/, "ws"), {
        headers: { "x-app-id": "sockets" },
        localAddress: `127.0.0.${number + 10}`,
      });
      const outcome = await new Promise<string>((resolve) => {
        socket.once("open", () => resolve("open"));
        socket.once("unexpected-response", (attempt, response) => {
          resolve(String(response.statusCode));
          attempt.destroy();
        });
        socket.on("error", (error) => resolve(error.message));
      });
      if (outcome === "open") {
        opened++;
        open.add(socket);
        // The proxy may close or reset it before.
        const closed = new Promise((resolve) => socket.once("close", resolve));
        await Promise.race([closed, pause(200 + 50 * number)]);
        open.delete(socket);
        socket.close();
      } else if (outcome !== "429" && outcome !== "503") failures.push(`${url}: ${outcome}`);
      await pause(100);
    }
  }

  const loops = Array.from({ length: clients }, (_, number) => client(number));
  return {
    opened: () => opened,
    /** Results other than open and refused. */
    failures: () => failures,
    async stop(): Promise<void> {
      running = false;
      for (const socket of open) socket.terminate();
      await Promise.all(loops);
    },
  };
}
