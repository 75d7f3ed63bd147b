/** Opens a listening socket with its limits, or reports in plain words why it cannot. */
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type Address, parseAddress } from "../../config/values.js";
import { type ConnectionLimitOptions, limitConnections } from "../../shared/connection-limits.js";
import { type SecureServerOptions, secureServer } from "../../shared/tls/secure-server.js";

export interface ListenOptions {
  server: Server;
  /** The name of the option that contains `address`. */
  option: string;
  address: string;
  /** Undefined: plaintext. */
  tls?: SecureServerOptions | undefined;
  /** Undefined: no limits. */
  limits?: Omit<ConnectionLimitOptions, "name"> | undefined;
}

export function listen({ server, option, address, tls, limits }: ListenOptions): Promise<Address> {
  const wanted = parseAddress(address);
  if (wanted === undefined) return Promise.reject(new Error(`${option}: invalid address ${address}`));
  if (tls !== undefined) secureServer(server, tls);
  if (limits !== undefined) limitConnections(server, { ...limits, name: option });
  return new Promise((resolve, reject) => {
    const failed = (error: NodeJS.ErrnoException) => {
      reject(new Error(`${option}: ${reasonOf(error, address)}`, { cause: error }));
    };
    server.once("error", failed);
    server.listen({ host: wanted.host, port: wanted.port }, () => {
      server.off("error", failed);
      // A connection that could not be accepted, for example without descriptors. The next one may be.
      server.on("error", (error) => limits?.log.warn({ option, err: error }, "cannot accept a connection"));
      const { port } = server.address() as AddressInfo;
      resolve({ host: wanted.host, port });
    });
  });
}

function reasonOf({ code, message }: NodeJS.ErrnoException, address: string): string {
  if (code === "EADDRINUSE") return `${address} is already in use by another process`;
  if (code === "EADDRNOTAVAIL") return `${address} is not an address of this machine`;
  if (code === "EACCES") return `no permission to listen on ${address}`;
  return `cannot listen on ${address}: ${message}`;
}
