/** What a plane asks for before a connection changes its protocol: a slot on one of the pods, held until the connection ends. */

export interface ConnectionRequest {
  app: string;
  /** From `clientNetwork`; absent or empty if unknown: then the limit per client does not apply. */
  client?: string | undefined;
  /** The route's name. */
  route: string;
  /** Healthy targets, `host:port`. */
  pods: string[];
  /** The app is on a dry run: a connection above a limit is admitted without a slot. */
  dryRun?: boolean | undefined;
}

export type ConnectionVerdict =
  | { allowed: false; status: number; headers: Record<string, string>; body: string }
  | { allowed: true; headers: Record<string, string>; pod: string; slot: SlotHold };

export interface SlotHold {
  readonly connection: string;
  /** To be called once, however the connection ended. Repeated calls do nothing. Never throws. */
  release(): void;
  /** The handler is called when the lease is lost and there is no slot any more: close the connection with 1013. */
  onLost(handler: () => void): void;
}

export interface ConnectionAdmission {
  admit(request: ConnectionRequest): Promise<ConnectionVerdict>;
}
