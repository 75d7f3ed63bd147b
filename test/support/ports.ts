/**
 * Ports on the loopback address that belong to this process until it ends, also while other processes, test runs and
 * checkouts on the machine look for ports.
 */
import { createSocket, type Socket } from "node:dgram";
import { createServer } from "node:net";

/**
 * Below the ephemeral ports. From 18,000 on, tests use fixed ports in configurations that are only checked; `nginx -t`
 * opens them.
 */
export const LOWEST = 11_000;
export const HIGHEST = 17_999;
const COUNT = HIGHEST - LOWEST + 1;
/** The bus port of a Redis Cluster node is this far above its port. It belongs to the owner of the port. */
export const BUS_OFFSET = 10_000;

/** Held so that they are not closed by the garbage collector. */
const locks = new Set<Socket>();

/**
 * A port that nobody else gets or listens on. The lock is a UDP socket on the number of the bus port: binding it is
 * atomic, the kernel releases it when the process ends, and it does not occupy the UDP port of the same number.
 * @param first where the search begins
 */
export async function freePort(first = LOWEST + Math.floor(Math.random() * COUNT)): Promise<number> {
  for (let i = 0; i < COUNT; i++) {
    const port = LOWEST + ((first - LOWEST + i) % COUNT);
    const lock = await lockPort(port);
    if (lock === undefined) continue;
    if ((await isFree(port)) && (await isFree(port + BUS_OFFSET))) {
      locks.add(lock);
      return port;
    }
    lock.close();
  }
  throw new Error(`no free port from ${LOWEST} to ${HIGHEST}`);
}

function lockPort(port: number): Promise<Socket | undefined> {
  return new Promise((resolve, reject) => {
    const socket = createSocket({ type: "udp4" });
    socket.once("error", (error: NodeJS.ErrnoException) => {
      socket.close();
      if (error.code === "EADDRINUSE") resolve(undefined);
      else reject(error);
    });
    socket.bind({ port: port + BUS_OFFSET, address: "127.0.0.1", exclusive: true }, () => {
      socket.unref();
      resolve(socket);
    });
  });
}

/** Servers that a killed test left behind still listen. */
function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
