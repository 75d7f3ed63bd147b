/** WebSocket clients that report their result: open, or refused with a status and a reason. */
import { expect } from "vitest";
import { WebSocket } from "ws";

export interface SocketClient {
  readonly name: string;
  /** Open, or the refusal. */
  readonly outcome: Promise<Outcome>;
  /** Resolves when an open connection has ended. */
  readonly ended: Promise<{ code: number }>;
  readonly socket: WebSocket;
}

export type Outcome =
  | { open: true; headers: Record<string, unknown> }
  | { open: false; status: number; reason: string; retryAfter: number };

let count = 0;

/**
 * `url` of a route, with ws:, http:, or over TLS with wss: or https:. The client's name is added to the query.
 * @param ca a trusted certificate
 * @param localAddress from which it connects
 */
export function connectSocket(
  url: string,
  headers: Record<string, string> = {},
  ca?: Buffer,
  localAddress?: string,
): SocketClient {
  const name = `c${++count}`;
  const options = { headers, handshakeTimeout: 30_000, ...(ca === undefined ? {} : { ca }), localAddress };
  const socket = new WebSocket(`${url.replace(/^http/, "ws")}?client=${name}`, options);
  const ended = new Promise<{ code: number }>((resolve) => socket.once("close", (code) => resolve({ code })));
  const outcome = new Promise<Outcome>((resolve) => {
    let upgradeHeaders: Record<string, unknown> = {};
    socket.once("upgrade", (response) => {
      upgradeHeaders = response.headers;
    });
    socket.once("open", () => resolve({ open: true, headers: upgradeHeaders }));
    socket.once("unexpected-response", (request, response) => {
      let body = "";
      response.on("data", (chunk) => (body += chunk));
      response.on("end", () => {
        const reason = reasonIn(body);
        const retryAfter = Number(response.headers["retry-after"] ?? 0);
        resolve({ open: false, status: response.statusCode ?? 0, reason, retryAfter });
        request.destroy();
      });
      response.on("error", () => resolve({ open: false, status: 0, reason: "aborted", retryAfter: 0 }));
    });
    socket.on("error", (error) => resolve({ open: false, status: 0, reason: error.message, retryAfter: 0 }));
  });
  return { name, socket, outcome, ended };
}

/**
 * Checks a rate of one new connection per second. Each connection was admitted between its request and its response, so
 * the check does not depend on delays: in no window are there more connections than the rate allows.
 */
export function expectOneEachSecond(admitted: { from: number; to: number }[]): void {
  for (const { from } of admitted) {
    for (const { to } of admitted) {
      const within = admitted.filter((one) => one.from >= from && one.to <= to);
      const allowed = 1 + Math.max(to - from, 0) / 1000;
      expect(within.length, `connections in ${to - from} ms`).toBeLessThanOrEqual(allowed);
    }
  }
}

function reasonIn(body: string): string {
  try {
    return String((JSON.parse(body) as { reason?: unknown }).reason);
  } catch {
    return body.slice(0, 100);
  }
}
