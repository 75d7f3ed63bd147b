/** Waits until a server accepts connections. */
import { connect } from "node:net";
import type { ServerProcess } from "../../test/support/processes.js";
import { waitFor } from "../../test/support/wait-for.js";

export async function accepts(port: number, server: ServerProcess): Promise<void> {
  await waitFor(`a server on port ${port}`, () => {
    if (server.hasEnded()) throw new Error(server.output());
    return new Promise<boolean>((resolve) => {
      const socket = connect(port, "127.0.0.1", () => {
        socket.destroy();
        resolve(true);
      });
      socket.once("error", () => resolve(false));
    });
  });
}
