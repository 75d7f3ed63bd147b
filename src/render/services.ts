/** How rendered planes reach the services: their addresses and the token. */
import type { ServiceAddress } from "../config/options/plane-options.js";
import type { Config } from "../config/schema.js";
import { parseAddress } from "../config/values.js";
import { RenderError } from "./files.js";

/** @param plane the name of the plane in the error message */
export function requirePlaneToken(config: Config, plane: string): void {
  if (config.control.plane_token === "") {
    throw new RenderError(`control.plane_token is empty: the service would reject ${plane}`);
  }
}

/** The addresses given by a command-line option (host:port each), or else the configured listener `own`. */
export function serviceAddresses(given: readonly string[], option: string, own: string): ServiceAddress[] {
  if (given.length > 0) return given.map((text) => addressOf(text, option));
  const { host, port } = parseAddress(own)!;
  const isWildcard = host === "0.0.0.0" || host === "::";
  return [{ host: isWildcard ? "127.0.0.1" : host, port }];
}

export function addressOf(text: string, option: string): ServiceAddress {
  const at = parseAddress(text);
  if (at === undefined || at.port === 0) throw new RenderError(`${option} ${text}: must be host:port`);
  return at;
}
