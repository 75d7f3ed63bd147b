/** Handles the requests of a connection one after the other, even if the client does not wait for replies. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

type Handle = (request: IncomingMessage, response: ServerResponse) => void;

/** Requests of a connection that wait for earlier ones. With more it is closed. */
const MOST_WAITING = 32;

/** Node would handle them all at once, and keep all replies until the client reads them. */
export function inTurn(handle: Handle): Handle {
  /** Per connection: the requests that wait while one is handled. They disappear with the connection. */
  const waiting = new WeakMap<Socket, [IncomingMessage, ServerResponse][]>();

  function start(socket: Socket, request: IncomingMessage, response: ServerResponse): void {
    response.once("close", () => {
      const next = socket.writable ? waiting.get(socket)?.shift() : undefined;
      if (next === undefined) waiting.delete(socket);
      else start(socket, ...next);
    });
    handle(request, response);
  }

  return (request, response) => {
    const { socket } = request;
    const others = waiting.get(socket);
    if (others === undefined) {
      waiting.set(socket, []);
      start(socket, request, response);
    } else if (others.length < MOST_WAITING) others.push([request, response]);
    else socket.destroy();
  };
}
