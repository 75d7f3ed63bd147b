/** A backend that answers in random ways: at once, slowly, in chunks, with trailers, with a cost, not at all, or by breaking off. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type Backend, startBackend } from "../test/support/http-backend.js";
import { pause } from "../test/support/wait-for.js";

const MOST_CHUNKS = 20;
const MOST_CHUNK_BYTES = 40_000;
const LONGEST_PAUSE_MS = 30;

export function startUnreliableBackend(random: () => number): Promise<Backend> {
  const upTo = (most: number) => Math.floor(random() * (most + 1));

  async function inChunks(response: ServerResponse, ends: boolean): Promise<void> {
    const withTrailers = response.req.method !== "HEAD" && random() < 0.3;
    if (withTrailers) response.setHeader("trailer", "x-end");
    for (let count = upTo(MOST_CHUNKS); count > 0 && !response.destroyed; count--) {
      response.write(Buffer.alloc(upTo(MOST_CHUNK_BYTES), "x"));
      await pause(upTo(LONGEST_PAUSE_MS));
    }
    if (!ends) response.destroy();
    else {
      if (withTrailers) response.addTrailers({ "x-end": "yes" });
      response.end();
    }
  }

  return startBackend((incoming: IncomingMessage, response: ServerResponse) => {
    incoming.on("error", () => response.destroy());
    response.on("error", () => undefined);
    const kind = random();
    // Most answers follow the whole request, others do not wait for it.
    if (kind < 0.8) incoming.resume();
    if (random() < 0.2) response.setHeader("x-cost", ["7", "0", "-1", "1e9", "many"][upTo(4)]!);
    if (kind < 0.35) incoming.on("end", () => response.end("ok"));
    else if (kind < 0.45) response.end("early");
    else if (kind < 0.5) response.destroy();
    else if (kind < 0.52) setTimeout(() => response.destroy(), 1_000);
    else if (kind < 0.6) incoming.on("end", () => response.writeHead(204).end());
    else if (kind < 0.65) void inChunks(response, false);
    else void inChunks(response, true);
  });
}
