/** Opens the certificate files that the configuration names, for listeners and for the store. */
import type { ConnectionOptions } from "node:tls";
import type { Config } from "../../config/schema.js";
import { systemClock as clock } from "../../shared/clock.js";
import type { Log } from "../../shared/log.js";
import type { Certificates } from "../../shared/tls/certificates.js";
import { createHandshakeLog } from "../../shared/tls/handshake-log.js";
import type { SecureServerOptions } from "../../shared/tls/secure-server.js";
import { followingOptions } from "../../shared/tls/tls-clients.js";
import { openTlsFiles } from "../../shared/tls/tls-files.js";

interface ListenerTlsOptions {
  /** The path of the section. */
  name: string;
  section: Config["envoy"]["tls"];
  /** In the order of preference. */
  protocols: string[];
  log: Log;
  certificates: Certificates;
  handshakeFailed(): void;
}

/** Undefined for plaintext. Throws if a file is invalid. */
export function listenerTls(options: ListenerTlsOptions): SecureServerOptions | undefined {
  const { name, section, protocols, log, certificates } = options;
  if (section === undefined) return undefined;
  const files = openTlsFiles(section, { name, clock, log, certificates });
  const handshakeFailed = createHandshakeLog({ name, log, failed: options.handshakeFailed });
  return { files, clientAuth: section.client_auth, protocols, handshakeFailed };
}

export function storeTls(
  { store_tls: section }: Config,
  log: Log,
  certificates: Certificates,
): { tls?: ConnectionOptions } {
  if (section === undefined) return {};
  const files = openTlsFiles(section, { name: "store_tls", clock, log, certificates });
  return { tls: followingOptions(files, section.name) };
}
