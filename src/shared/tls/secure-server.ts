/** Puts TLS in front of an HTTP server: accepted sockets reach its own listeners after the handshake. */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { createServer, type SecureContextOptions, type TLSSocket } from "node:tls";
import { every } from "../background.js";
import { setAccepted } from "../connection-limits.js";
import type { TlsFiles } from "./tls-files.js";

export interface SecureServerOptions {
  files: TlsFiles;
  /** Whether clients must, may or need not present a certificate of the CA. */
  clientAuth: "none" | "optional" | "required";
  /** In the order of preference. */
  protocols: string[];
  handshakeFailed(error: Error, socket: TLSSocket, client: string | undefined): void;
}

const HANDSHAKE_TIMEOUT_MS = 10_000;
/** How often a server that no longer listens looks for unfinished handshakes. */
const SWEEP_MS = 250;

/** Call it when all listeners for "connection" are set. New certificates apply to new connections. */
export function secureServer(server: Server, options: SecureServerOptions): void {
  const { files, clientAuth, protocols, handshakeFailed } = options;
  const accept = server.listeners("connection") as ((this: Server, socket: Socket) => void)[];
  server.removeAllListeners("connection");
  const secure = createServer({
    ...contextOf(files),
    requestCert: clientAuth !== "none",
    rejectUnauthorized: clientAuth === "required",
    ALPNProtocols: protocols,
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
  });
  files.onChange(() => secure.setSecureContext(contextOf(files)));
  /** Sockets whose handshake has not ended, by address of the client: the server does not know them yet. */
  const pending = new Map<string, Socket>();
  secure.on("secureConnection", (socket: TLSSocket) => {
    const accepted = pending.get(clientOf(socket));
    if (accepted !== undefined) setAccepted(socket, accepted);
    pending.delete(clientOf(socket));
    for (const each of accept) each.call(server, socket);
  });
  /** Of sockets that Node may have closed when it reports why: their address is then unknown. */
  const clients = new WeakMap<TLSSocket, string | undefined>();
  // The only event before the end of a handshake. The key itself is not used.
  if (clientAuth === "required") secure.on("keylog", (_key, socket) => clients.set(socket, socket.remoteAddress));
  secure.on("tlsClientError", (error, socket) => {
    handshakeFailed(error, socket, socket.remoteAddress ?? clients.get(socket));
    socket.destroy();
  });
  server.on("connection", (socket: Socket) => {
    const client = clientOf(socket);
    pending.set(client, socket);
    socket.once("close", () => {
      if (pending.get(client) === socket) pending.delete(client);
    });
    secure.emit("connection", socket);
  });
  server.once("listening", () => {
    const stop = every(SWEEP_MS, () => {
      if (server.listening) return;
      stop();
      for (const socket of pending.values()) socket.destroy();
    });
  });
}

function clientOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

function contextOf(files: TlsFiles): SecureContextOptions {
  return { ...files.current(), minVersion: "TLSv1.2" };
}
