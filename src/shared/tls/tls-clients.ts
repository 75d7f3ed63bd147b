/** TLS options of connections to servers. New connections use the current contents of the files. */
import type { ConnectionOptions } from "node:tls";
import { type OpenTlsOptions, openTlsFiles, type TlsFiles, type TlsPaths } from "./tls-files.js";

/** Read at each new connection, for example by `Object.assign`. */
export function followingOptions(files: TlsFiles, name: string | undefined): ConnectionOptions {
  const options: ConnectionOptions = { minVersion: "TLSv1.2", ...(name === undefined ? {} : { servername: name }) };
  for (const option of ["ca", "cert", "key"] as const) {
    Object.defineProperty(options, option, { enumerable: true, get: () => files.current()[option] });
  }
  return options;
}

/** Opens the files of each name once, as long as they are asked for. */
export function createTlsClients(options: Omit<OpenTlsOptions, "name">) {
  const open = new Map<string, { files: TlsFiles; used: boolean }>();

  return {
    /** Throws if a file is invalid. */
    of(name: string, paths: TlsPaths): TlsFiles {
      const key = JSON.stringify([name, paths.cert, paths.key, paths.ca]);
      const known = open.get(key) ?? { files: openTlsFiles(paths, { ...options, name }), used: true };
      known.used = true;
      open.set(key, known);
      return known.files;
    },
    /** Closes those that were not asked for since the last call. */
    closeUnused(): void {
      for (const [key, entry] of open) {
        if (!entry.used) {
          entry.files.close();
          open.delete(key);
        }
        entry.used = false;
      }
    },
  };
}

export type TlsClients = ReturnType<typeof createTlsClients>;
