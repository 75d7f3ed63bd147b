/** A raw connection that sends prepared commands in one write, so that the server is the bottleneck, not the client. */
import { once } from "node:events";
import { connect } from "node:net";

export interface Pipeline {
  /** Sends the commands and waits for all replies. Returns the duration and the bytes of the replies. */
  send(commands: Buffer): Promise<{ ms: number; replies: Buffer }>;
  close(): void;
}

export async function openPipeline(port: number): Promise<Pipeline> {
  const socket = connect({ host: "127.0.0.1", port, noDelay: true });
  await once(socket, "connect");
  let batches = 0;

  function send(commands: Buffer): Promise<{ ms: number; replies: Buffer }> {
    // Replies are ordered: the reply to a final ECHO marks the end, so nothing needs to be parsed.
    batches += 1;
    const mark = `end-of-batch-${batches}`;
    const ending = Buffer.from(`$${mark.length}\r\n${mark}\r\n`);
    const payload = Buffer.concat([commands, encodeCommand(["ECHO", mark])]);
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      let tail = Buffer.alloc(0);
      const finish = () => {
        socket.off("data", receive);
        socket.off("error", reject);
        socket.off("close", lost);
      };
      const lost = () => reject(new Error("the server closed the connection"));
      const receive = (chunk: Buffer) => {
        chunks.push(chunk);
        tail = Buffer.concat([tail, chunk.subarray(-ending.length)]).subarray(-ending.length);
        if (!tail.equals(ending)) return;
        const ms = performance.now() - started;
        finish();
        const replies = Buffer.concat(chunks);
        resolve({ ms, replies: replies.subarray(0, -ending.length) });
      };
      socket.on("data", receive);
      socket.once("error", reject);
      socket.once("close", lost);
      const started = performance.now();
      socket.write(payload);
    });
  }

  return { send, close: () => socket.destroy() };
}

export function encodeCommand(words: (string | number)[]): Buffer {
  const parts = words.map(String).map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
  return Buffer.from(`*${words.length}\r\n${parts.join("")}`);
}
