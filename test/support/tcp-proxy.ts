/** A TCP proxy between store and Redis that can delay, drop bytes, lose a reply or reset connections. */
import { connect, createServer, type Socket } from "node:net";

export interface TcpProxy {
  readonly port: number;
  /** Delay of every reply. */
  delayMs: number;
  /** New connections are closed immediately. */
  refuse: boolean;
  /** Drops the next reply that contains the text and resets its connection. Resolves when that happened. */
  loseReply(containing: string): Promise<void>;
  /** Drops all further bytes on the existing connections, which stay open. */
  silenceAll(): void;
  /** Resets all connections. */
  resetAll(): void;
  connections(): number;
  stop(): Promise<void>;
}

export async function startTcpProxy(targetPort: number): Promise<TcpProxy> {
  const pairs = new Set<[Socket, Socket]>();
  const silent = new WeakSet<[Socket, Socket]>();
  let toLose: { text: string; lost: () => void } | undefined;

  const server = createServer((client) => {
    client.on("error", () => undefined);
    if (proxy.refuse) {
      client.resetAndDestroy();
      return;
    }
    const target = connect(targetPort, "127.0.0.1");
    const pair: [Socket, Socket] = [client, target];
    pairs.add(pair);
    client.setNoDelay(true);
    target.setNoDelay(true);
    target.on("error", () => undefined);
    client.on("data", (data) => !silent.has(pair) && target.write(data));
    target.on("data", (data) => {
      if (silent.has(pair)) return;
      if (toLose !== undefined && data.includes(toLose.text)) {
        const { lost } = toLose;
        toLose = undefined;
        reset(pair);
        lost();
        return;
      }
      if (proxy.delayMs === 0) client.write(data);
      else setTimeout(() => client.writable && client.write(data), proxy.delayMs);
    });
    client.on("close", () => reset(pair));
    target.on("close", () => reset(pair));
  });

  function reset(pair: [Socket, Socket]): void {
    if (!pairs.delete(pair)) return;
    for (const socket of pair) if (!socket.destroyed) socket.resetAndDestroy();
  }

  const proxy: TcpProxy = {
    port: 0,
    delayMs: 0,
    refuse: false,
    loseReply: (text) =>
      new Promise((lost) => {
        toLose = { text, lost };
      }),
    silenceAll() {
      for (const pair of pairs) silent.add(pair);
    },
    resetAll() {
      for (const pair of [...pairs]) reset(pair);
    },
    connections: () => pairs.size,
    stop() {
      proxy.resetAll();
      return new Promise((resolve) => {
        server.close(() => resolve());
      });
    },
  };
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the proxy has no port");
  return Object.assign(proxy, { port: address.port });
}
