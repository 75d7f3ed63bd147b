/** Hostile tenants, planes and clients of a soak test. Whatever they do, apps at half of their limit are not refused. */
import type { HostileRecord } from "./history.js";
import type { Hostile } from "./hostile-actor.js";
import { hostileClients } from "./hostile-clients.js";
import { hostilePlanes } from "./hostile-planes.js";
import { hostileTenants } from "./hostile-tenants.js";

export const hostiles: readonly Hostile[] = [...hostileTenants, ...hostilePlanes, ...hostileClients];

export function hostileRecord({ name, effects }: Hostile, from: number, to: number): HostileRecord {
  return { name, from, to, hoardsSockets: effects.hoardsSockets ?? false };
}
