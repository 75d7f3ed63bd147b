/** Sends many requests byte by byte as given, over a few connections that are reused, and reads status and headers. */
import { connect, type Socket } from "node:net";

export interface RawReply {
  /** 0: the server closed the connection without a response. */
  status: number;
  head: string;
}

/** The length of the first response in `text`; undefined while it is incomplete. */
function lengthOf(text: string): number | undefined {
  const head = text.indexOf("\r\n\r\n");
  if (head < 0) return undefined;
  const fields = text.slice(0, head).toLowerCase();
  const body = head + 4;
  if (/\r\ntransfer-encoding: *chunked/.test(fields)) {
    const end = text.indexOf("0\r\n\r\n", body);
    return end < 0 ? undefined : end + 5;
  }
  const [, length] = /\r\ncontent-length: *([0-9]+)/.exec(fields) ?? [];
  if (length === undefined) return undefined;
  return text.length >= body + Number(length) ? body + Number(length) : undefined;
}

const CONNECTIONS = 8;

/** Replies in the order of the requests. Characters are bytes. */
export async function sendRaw(port: number, requests: readonly string[]): Promise<RawReply[]> {
  const replies: RawReply[] = [];
  let next = 0;
  async function work(): Promise<void> {
    let socket: Socket | undefined;
    while (next < requests.length) {
      const at = next++;
      const exchange = await exchangeOn(socket ?? connect(port, "127.0.0.1"), requests[at]!);
      replies[at] = exchange.reply;
      socket = exchange.socket;
    }
    socket?.destroy();
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, work));
  return replies;
}

function exchangeOn(socket: Socket, request: string): Promise<{ reply: RawReply; socket: Socket | undefined }> {
  return new Promise((resolve) => {
    let text = "";
    const end = (isOpen: boolean) => {
      socket.removeAllListeners();
      socket.on("error", () => undefined);
      const [, status] = /^HTTP\/1\.[01] ([0-9]{3})/.exec(text) ?? [];
      const head = text.slice(0, Math.max(text.indexOf("\r\n\r\n"), 0));
      const isReused = isOpen && !/\r\nconnection: *close/i.test(head);
      if (!isReused) socket.destroy();
      resolve({ reply: { status: Number(status ?? 0), head }, socket: isReused ? socket : undefined });
    };
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => {
      text += chunk;
      if (lengthOf(text) !== undefined) end(true);
    });
    socket.on("close", () => end(false));
    socket.on("error", () => end(false));
    socket.write(request, "latin1");
  });
}
