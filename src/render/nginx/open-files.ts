/** How many connections and open files a worker of nginx may have. */
import type { NginxSocketOptions } from "../../config/options/plane-options.js";
import { maxSockets } from "./sockets.js";

const MIN_CONNECTIONS = 8_192;
/** Bodies of requests and responses that do not fit into memory: at most one file per connection, but none for WebSockets. */
const MAX_TEMPORARY = 8_192;
/** Logs, listeners, connections between the processes of nginx. */
const OTHER_FILES = 64;
/** Less would not leave enough for a few requests at a time. */
export const MIN_OPEN_FILES = 256;

export interface WorkerFiles {
  /** `worker_connections`: connections of clients and those to targets and services. */
  connections: number;
  /** `worker_rlimit_nofile`. */
  files: number;
}

/**
 * There are always fewer connections than files: at the limit of connections nginx closes idle ones, at that of files it accepts no
 * new ones, whoever holds the others.
 *
 * @param permitted the hard limit of open files, if it is known
 */
export function workerFiles(sockets: NginxSocketOptions, permitted = Number.POSITIVE_INFINITY): WorkerFiles {
  // A request, or a WebSocket, uses two connections.
  const wanted = Math.max(MIN_CONNECTIONS, 2 * maxSockets(sockets) + 1024);
  const half = Math.floor((permitted - OTHER_FILES) / 2);
  const connections = Math.min(wanted, Math.max(half, permitted - OTHER_FILES - MAX_TEMPORARY));
  return { connections, files: Math.min(wanted + MAX_TEMPORARY + OTHER_FILES, permitted) };
}
