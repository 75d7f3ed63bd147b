/** Peers of the listener for Envoy without credentials: what they can make it do is bounded, and no data plane waits for it. */
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type ListenerUnderTest, startEnvoyListener } from "../../support/envoy-listener.js";
import { createSimulatedClock, type SimulatedClock } from "../../support/simulated-clock.js";
import { waitFor } from "../../support/wait-for.js";
import { allowAll, frame, METHOD, request, TOKEN } from "./protocol-client.js";

let clock: SimulatedClock;
let listener: ListenerUnderTest;
const sessions: ClientHttp2Session[] = [];
beforeEach(async () => {
  clock = createSimulatedClock();
  const access = { planeToken: TOKEN, allow: ["127.0.0.0/8"] };
  listener = await startEnvoyListener({ descriptors: allowAll, access: () => access, clock });
});
afterEach(async () => {
  for (const session of sessions.splice(0)) session.destroy();
  await listener.close(0);
});

function open(from: string): ClientHttp2Session {
  const session = connectHttp2(listener.url, {
    createConnection: () => connect({ port: listener.port, host: "127.0.0.1", localAddress: from }),
  });
  session.on("error", () => {});
  sessions.push(session);
  return session;
}

/** The gRPC status; undefined if there was none. */
function statusOn(session: ClientHttp2Session, path: string, token?: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    let status: string | undefined;
    const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const headers = { ":method": "POST", ":path": path, "content-type": "application/grpc", te: "trailers" };
    const stream = session.request({ ...headers, ...authorization });
    stream.on("response", (head) => (status = head["grpc-status"] as string | undefined));
    stream.on("trailers", (trailers) => (status = trailers["grpc-status"] as string | undefined));
    stream.on("error", () => {});
    stream.on("close", () => resolve(status));
    stream.resume();
    stream.end(frame(path === METHOD ? request() : Buffer.alloc(0)));
  });
}

/** Calls without end, on several connections that are opened again when they are closed. */
function flood(path: string) {
  const counts = { replies: 0, closed: 0, stop: false };
  async function one(): Promise<void> {
    while (!counts.stop) {
      const session = open("127.0.0.2");
      await Promise.race(["connect", "close"].map((event) => new Promise((resolve) => session.once(event, resolve))));
      while (!session.closed && !session.destroyed && !counts.stop) {
        const statuses = await Promise.all(Array.from({ length: 20 }, () => statusOn(session, path)));
        counts.replies += statuses.filter((status) => status !== undefined).length;
      }
      counts.closed++;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
  for (let i = 0; i < 20; i++) void one().catch(() => {});
  return counts;
}

it.each([METHOD, "/grpc.health.v1.Health/Check"])(
  "a flood of %s without a token waits, while data planes are answered at once",
  async (path) => {
    const plane = open("127.0.0.2");
    expect(await statusOn(plane, METHOD, TOKEN)).toBe("0");
    const counts = flood(path);
    await waitFor("connections to be closed", () => counts.closed > 20);
    for (let i = 0; i < 100; i++) expect(await statusOn(plane, METHOD, TOKEN)).toBe("0");
    // Its health checks, and others' calls.
    expect(await statusOn(plane, "/grpc.health.v1.Health/Check")).toBe("0");
    expect(await statusOn(open("127.0.0.3"), METHOD, TOKEN)).toBe("0");
    expect(await statusOn(open("127.0.0.4"), METHOD)).toBe("16");
    // Time stands still: nothing is added to what they may use.
    let before = -1;
    await waitFor("the flood to wait", async () => {
      const isSame = counts.replies === before;
      before = counts.replies;
      for (let i = 0; i < 50; i++) await statusOn(plane, METHOD, TOKEN);
      return isSame;
    });
    expect(before).toBeLessThanOrEqual(1_004);
    await clock.advance(5_000);
    await waitFor("further replies", () => counts.replies > before);
    counts.stop = true;
  },
);
