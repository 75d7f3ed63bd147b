/** Opens the certificate files that the configuration names, for listeners and for the store. */
import type { ConnectionOptions } from "node:tls";
import type { Config } from "../../config/schema.js";
import { systemClock as clock } from "../../shared/clock.js";
import type { Log } from "../../shared/log.js";
import type { SecureServerOptions } from "../../shared/tls/secure-server.js";
import { followingOptions } from "../../shared/tls/tls-clients.js";
import { openTlsFiles } from "../../shared/tls/tls-files.js";

/** Undefined for plaintext. `name`: the path of the section. Throws if a file is invalid. */
export function listenerTls(
  name: string,
  section: Config["envoy"]["tls"],
  protocols: string[],
  log: Log,
): SecureServerOptions | undefined {
  if (section === undefined) return undefined;
  const files = openTlsFiles(section, { name, clock, log });
  return { files, clientAuth: section.client_auth, protocols, log };
}

export function storeTls({ store_tls: section }: Config, log: Log): { tls?: ConnectionOptions } {
  if (section === undefined) return {};
  return { tls: followingOptions(openTlsFiles(section, { name: "store_tls", clock, log }), section.name) };
}
