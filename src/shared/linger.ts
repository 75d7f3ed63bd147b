/** Closes a socket in two steps, so that a client that still sends receives the response. */
import type { Socket } from "node:net";

/** Node would reset a connection with unread input, and the client could lose the response. Reads for `lingerMs` instead. */
export function lingerOnClose(socket: Socket, lingerMs: number): void {
  socket.destroySoon = () => {
    socket.end();
    const timer = setTimeout(() => socket.destroy(), lingerMs);
    socket.once("close", () => clearTimeout(timer));
  };
}
