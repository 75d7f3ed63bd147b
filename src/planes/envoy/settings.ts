/** The settings of the Envoy plane: a Lua table that `tollgate render envoy` writes before the generated script. */
import type { PlaneSettings } from "../lua/settings.js";
import type { SocketRoutes } from "./sockets/state.js";

/** A network whose hops are believed, in words of 32 bits, as `trusted-hops.ts` compares them. */
export interface TrustedNetwork {
  /** One word for IPv4, four for IPv6. */
  words: number[];
  /** Bits of the prefix. */
  bits: number;
}

/** `node` is the name that all workers share; each adds letters of its own. Envoy's clusters know where the services are. */
export interface EnvoySettings extends PlaneSettings {
  clusters: {
    /** The control listeners of the services, for `POST /v1/sync` and `/v1/connections/…`. */
    control: string;
    /** Their listeners for Envoy, for `POST /v1/check`. */
    envoy: string;
  };
  /** Networks of `identity.trusted_hops`. */
  trustedHops: TrustedNetwork[];
  /**
   * A header in which Envoy itself writes the client's address, over whatever the client wrote there; empty where there is
   * none. To ask Envoy for the address instead costs a request as much as all of the decision.
   */
  addressHeader: string;
  /** Some route has `connections`: only then upgrades are looked for, and Envoy must let them come this far. */
  sockets: boolean;
  socketRoutes: SocketRoutes;
  /** Workers of the Envoy, each of which is a node: what all of them may pass without the store is divided by it. */
  workers: number;
  /**
   * Exchanges of unknown length that break off are settled from the access log, which must then be configured; else what
   * they were estimated at stands.
   */
  settleByAccessLog: boolean;
}
