/** Begins to listen, or says in plain words why it cannot. */
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type Address, parseAddress } from "../../config/values.js";

/** `option` is the name of the option that holds `address`. */
export function listen(server: Server, option: string, address: string): Promise<Address> {
  const wanted = parseAddress(address);
  if (wanted === undefined) return Promise.reject(new Error(`${option}: ${address} is no address`));
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
  if (code === "EADDRINUSE") return `${address} is taken by another program`;
  if (code === "EADDRNOTAVAIL") return `${address} is no address of this machine`;
  if (code === "EACCES") return `this user may not listen on ${address}`;
  return `cannot listen on ${address}: ${message}`;
}
