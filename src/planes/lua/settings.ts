/** What every data plane in Lua must know of a configuration. `tollgate render` writes it down as a Lua table. */

import type { IdentityRules } from "../../core/identity.js";
import type { LeaseOptions } from "../../core/lease.js";
import type { AppLimits } from "../../core/limits.js";

export interface PlaneSettings {
  /** Empty: host name and process. */
  node: string;
  planeToken: string;
  configVersion: string;
  lease: LeaseOptions;
  timeoutMs: number;
  failOpenTokens: number;
  identity: {
    /** In lower case. */
    appHeader: string;
    userHeader: string;
    apiKeyHeader: string;
    rules: IdentityRules;
    /** SHA-1 of a key, in base64 → its app. The keys themselves are not written down. */
    apiKeys: { [digest: string]: string };
  };
  /** More headers than that: 431. */
  headerCount: number;
  apps: AppLimits[];
}
