/** What everything that runs in a proxy shares. */
import type { ProxyLog } from "./options.js";

export interface Shared {
  readonly log: ProxyLog;
  readonly via: string;
  /**
   * Time for the timeouts, counted by the proxy's sweep. Reading it costs nothing, and it stands still while the process
   * does: who was paused finds nobody late.
   */
  clockMs: number;
  draining: boolean;
}
