/** What the proxy asks before a connection changes its protocol: a slot on one of the pods, held until it ends. */
import type { Arrival } from "../http/admission.js";

export interface UpgradeArrival {
  arrival: Arrival;
  app: string;
  /** The route's name. */
  route: string;
  /** Healthy targets, `host:port`. */
  pods: string[];
}

export type UpgradeVerdict =
  | { allowed: false; status: number; headers: Record<string, string>; body: string }
  | { allowed: true; headers: Record<string, string>; pod: string; slot: SlotHold };

export interface SlotHold {
  readonly connection: string;
  /** Exactly once, however the connection ended; repeated calls do nothing. Never throws. */
  release(): void;
  /** Called when the lease was lost and could not be taken again: the connection must be closed with 1013. */
  onLost(handler: () => void): void;
}

export interface UpgradeAdmission {
  admit(arrival: UpgradeArrival): Promise<UpgradeVerdict>;
}
