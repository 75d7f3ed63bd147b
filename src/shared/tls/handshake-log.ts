/** Logs failed TLS handshakes. Anyone can cause them, so the rate of lines is limited; the rest are logged as a count. */
import type { TLSSocket } from "node:tls";
import { type Clock, systemClock } from "../clock.js";
import type { Log } from "../log.js";
import { createThrottle } from "../throttle.js";

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
  const throttle = createThrottle({
    clock,
    perSecond: () => LINES_PER_SECOND,
    suppressed: (_kind, suppressed) => log.info({ name, suppressed }, "more TLS handshakes failed in the same second"),
  });

  return (error: NodeJS.ErrnoException, socket: TLSSocket, client: string | undefined): void => {
    // Of a client certificate that was rejected. Node then reports only that the connection was closed.
    const rejected = socket.authorizationError as Error | string | undefined | null;
    if (!rejected && error.code === "ECONNRESET") {
      // Health checks of load balancers and port scans look like this.
      log.debug({ name, client }, "client disconnected during the TLS handshake");
      return;
    }
    failed?.();
    if (!throttle.admits("failed")) return;
    const reason = rejected ? `client certificate rejected: ${String(rejected)}` : (error.code ?? error.message);
    log.info({ name, reason, client }, "TLS handshake failed");
  };
}
