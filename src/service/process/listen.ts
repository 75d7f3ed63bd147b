/** Opens a listening socket, or reports in plain words why it cannot. */
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type Address, parseAddress } from "../../config/values.js";
import { type SecureServerOptions, secureServer } from "../../shared/tls/secure-server.js";

/**
 * @param option the name of the option that contains `address`
 * @param tls undefined: plaintext
 */
export function listen(server: Server, option: string, address: string, tls?: SecureServerOptions): Promise<Address> {
  const wanted = parseAddress(address);
  if (wanted === undefined) return Promise.reject(new Error(`${option}: invalid address ${address}`));
  if (tls !== undefined) secureServer(server, tls);
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      reject(new Error(`${option}: ${reasonOf(error, address)}`, { cause: error }));
    });
    server.listen({ host: wanted.host, port: wanted.port }, () => {
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
