/** Tells HTTP/1.1 and HTTP/2 apart by the first bytes of a connection. */
import type { Socket } from "node:net";

/** Start of the HTTP/2 connection preface. No HTTP/1.1 method that is served here starts with it. */
const PREFACE = "PRI";

/** Reads the first bytes and puts them back, so that the server of that protocol gets the unchanged socket. */
export function detectProtocol(socket: Socket, detected: (protocol: "http1" | "http2") => void): void {
  let received: Buffer | undefined;
  const destroy = () => socket.destroy();
  socket.on("error", destroy);
  socket.on("data", look);

  function look(chunk: Buffer): void {
    received = received === undefined ? chunk : Buffer.concat([received, chunk]);
    const start = received.toString("latin1", 0, PREFACE.length);
    if (start.length < PREFACE.length && PREFACE.startsWith(start)) return;
    socket.removeListener("data", look);
    socket.removeListener("error", destroy);
    socket.pause();
    socket.unshift(received);
    detected(start === PREFACE ? "http2" : "http1");
  }
}
