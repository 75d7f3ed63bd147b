/** The settings of the nginx plane: a Lua table that `tollgate render nginx` writes from the configuration. */
import type { CostProfile } from "../../core/cost.js";
import type { IdentityRules } from "../../core/identity.js";
import type { LeasePolicy } from "../../core/lease.js";

export interface NginxApp {
  id: string;
  guaranteed: number;
  burst: number;
  priority: number;
  borrow: boolean;
  profile: CostProfile;
  onStoreFailure: string;
  dryRun: boolean;
}

export interface ServiceAddress {
  host: string;
  port: number;
}

export interface NginxSettings {
  /** Empty: host name and process. */
  node: string;
  /** The control listeners of the services, in the order in which they are tried. */
  services: ServiceAddress[];
  planeToken: string;
  configVersion: string;
  lease: LeasePolicy;
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
  apps: NginxApp[];
}
