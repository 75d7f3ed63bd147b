/** Logs failed TLS handshakes. Anyone can cause them, so the rate of lines is limited; the rest are logged as a count. */
import type { TLSSocket } from "node:tls";
import { type Clock, systemClock } from "../clock.js";
import type { Log } from "../log.js";

export interface HandshakeLogOptions {
  /** The option that has the certificate. */
  name: string;
  log: Pick<Log, "debug" | "info">;
  /** Called for each failed handshake. */
  failed?(): void;
  clock?: Clock;
}

const LINES_PER_SECOND = 5;

export function createHandshakeLog({ name, log, failed, clock = systemClock }: HandshakeLogOptions) {
  let inSecond = 0;

  function nextSecond(): void {
    const suppressed = inSecond - LINES_PER_SECOND;
    if (suppressed > 0) log.info({ name, suppressed }, "more TLS handshakes failed in the same second");
    inSecond = 0;
  }

  return (error: NodeJS.ErrnoException, socket: TLSSocket, client: string | undefined): void => {
    // Of a client certificate that was rejected. Node then reports only that the connection was closed.
    const rejected = socket.authorizationError as Error | string | undefined | null;
    if (!rejected && error.code === "ECONNRESET") {
      // Health checks of load balancers and port scans look like this.
      log.debug({ name, client }, "client disconnected during the TLS handshake");
      return;
    }
    failed?.();
    if (inSecond === 0) clock.after(1_000, nextSecond);
    if (++inSecond > LINES_PER_SECOND) return;
    const reason = rejected ? `client certificate rejected: ${String(rejected)}` : (error.code ?? error.message);
    log.info({ name, reason, client }, "TLS handshake failed");
  };
}
