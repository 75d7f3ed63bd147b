/** Sends samples to StatsD by UDP and to Graphite by TCP. Nothing is kept for later. */
import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { once } from "node:events";
import { connect } from "node:net";
import type { PushDestination } from "../../../config/push-url.js";
import { graphiteLine, statsdLines } from "./lines.js";
import type { Sample } from "./samples.js";

export interface Pushed {
  samples: readonly Sample[];
  unixSeconds: number;
  /** Aborts the push. */
  signal: AbortSignal;
}

/** Fits into one Ethernet frame. */
const MOST_DATAGRAM_BYTES = 1_432;
/** Yield to the event loop after this many datagrams, so that neither requests nor the receiver are overwhelmed. */
const DATAGRAMS_PER_TURN = 20;
const BYTES_PER_WRITE = 65_536;

/** Rejects if the destination is not available. */
export async function pushTo(destination: PushDestination, pushed: Pushed): Promise<void> {
  if (destination.kind === "statsd") await toStatsd(destination, pushed);
  else await toGraphite(destination, pushed);
}

async function toStatsd(destination: PushDestination, { samples, signal }: Pushed): Promise<void> {
  const { address, family } = await lookup(destination.host);
  const socket = createSocket(family === 6 ? "udp6" : "udp4");
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once("error", reject).connect(destination.port, address, resolve);
    });
    let failure: Error | undefined;
    // A connected socket reports that nobody receives.
    socket.on("error", (error) => {
      failure ??= error;
    });
    let sent = 0;
    for (const datagram of datagrams(samples, destination)) {
      await new Promise<void>((resolve, reject) =>
        socket.send(datagram, (error) => (error ? reject(error) : resolve())),
      );
      if (++sent % DATAGRAMS_PER_TURN === 0) await new Promise((resolve) => setImmediate(resolve));
      signal.throwIfAborted();
      if (failure !== undefined) throw failure;
    }
  } finally {
    socket.close();
  }
}

function* datagrams(samples: readonly Sample[], destination: PushDestination): Generator<string> {
  let lines: string[] = [];
  let bytes = 0;
  for (const sample of samples) {
    // The lines of a sample belong together.
    const more = statsdLines(sample, destination);
    const size = more.reduce((sum, line) => sum + Buffer.byteLength(line) + 1, 0);
    if (bytes + size > MOST_DATAGRAM_BYTES && lines.length > 0) {
      yield lines.join("\n");
      lines = [];
      bytes = 0;
    }
    lines.push(...more);
    bytes += size;
  }
  if (lines.length > 0) yield lines.join("\n");
}

async function toGraphite(destination: PushDestination, { samples, unixSeconds, signal }: Pushed): Promise<void> {
  const socket = connect({ host: destination.host, port: destination.port, signal });
  try {
    await once(socket, "connect", { signal });
    // Otherwise a reset would be an unhandled error.
    const closed = once(socket, "close", { signal });
    closed.catch(() => {});
    socket.resume();
    for (const text of chunks(samples, destination, unixSeconds)) {
      if (!socket.write(text)) await once(socket, "drain", { signal });
    }
    socket.end();
    await closed;
    if (socket.errored !== null) throw socket.errored;
  } finally {
    socket.on("error", () => {});
    socket.destroy();
  }
}

function* chunks(samples: readonly Sample[], destination: PushDestination, unixSeconds: number): Generator<string> {
  let text = "";
  for (const sample of samples) {
    text += graphiteLine(sample, destination, unixSeconds);
    if (text.length < BYTES_PER_WRITE) continue;
    yield text;
    text = "";
  }
  if (text !== "") yield text;
}
