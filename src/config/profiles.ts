/** The cost profiles by the names that configuration and command line give them. */
import { bandwidthProfile, type CostProfile, iopsProfile, standardProfile } from "../core/cost.js";

export const profiles: ReadonlyMap<string, CostProfile> = new Map([
  ["standard", standardProfile],
  ["iops", iopsProfile],
  ["bandwidth", bandwidthProfile],
]);
