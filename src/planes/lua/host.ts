/** The host of this Lua state: the plane sets it before anything else runs. */
import type { Host, SyncHost } from "../../engine/host.js";

/** `sync` is the same host, in states that send messages. */
export const running = {} as { host: Host; sync: SyncHost };

export function nowMs(): number {
  return running.host.nowMs();
}
