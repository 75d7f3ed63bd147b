/** The state of one nginx worker that only nginx needs. */
import type { NginxOptions } from "../../config/options/plane-options.js";
import type { Semaphore } from "./ngx.js";

export interface NginxWorker {
  options: NginxOptions;
  /** The signal of the request that looks for replies to other workers, and when it last did. */
  watcher: Semaphore | undefined;
  watchedAt: number;
  /** Admitted exchanges that have not ended. */
  open: number;
  generation: number;
  /** For connections to the services, parsed; undefined if nginx has no client certificate. */
  clientCertificate: unknown;
  clientKey: unknown;
}

/** Filled by `init`. */
export const nginx = {} as NginxWorker;
