/** Free ports on the loopback address, below the range of ephemeral ports. */
import { createServer } from "node:net";

/** The bus port of a cluster node is 10,000 above its port, so the range must be smaller than that. */
const LOWEST = 11_000;
const HIGHEST = 20_900;

/** A free port. With `alsoFree`, the port that many above it is free too (the bus of a cluster node). */
export async function freePort(alsoFree = 0): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
    if ((await isFree(port)) && (alsoFree === 0 || (await isFree(port + alsoFree)))) return port;
  }
  throw new Error("no free port found");
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
