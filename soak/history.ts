/** What happened during a soak test, as recorded by clients, monitors and the faults themselves. */

/** A request as its client saw it. Times are milliseconds since the start. */
export interface Exchange {
  app: string;
  plane: string;
  from: number;
  to: number;
  /** 0: no response. */
  status: number;
  /** Of a refusal. */
  reason: string;
  retryAfterS: number;
}

/** What a fault permits beyond the limits, by the documented bounds. */
export interface FaultRecord {
  name: string;
  from: number;
  /** The end of the fault, without the recovery. */
  to: number;
  /** Requests are decided without the store. */
  withoutStore: boolean;
  /** Until then the store does not answer at all; 0: it does. */
  unavailableTo: number;
  /** Nodes that lost what they had not reported, or may spend leases that were given back. */
  lostNodes: number;
  /** The buckets were filled by the clock. */
  refilled: boolean;
  /** Requests to these planes may get no response. */
  planes: string[];
}

/** Open WebSockets as the pods count them. */
export interface SocketSample {
  at: number;
  pods: number[];
}

export interface ProcessSample {
  at: number;
  name: string;
  /** A restarted process is another one. */
  pid: number;
  memoryMb: number;
  files: number;
}

export interface AppRules {
  rate: number;
  burst: number;
  onStoreFailure: "open" | "local" | "closed";
  /** Its load is at most half of its limit on each plane, also without the store. */
  isNeverRefused?: boolean;
}

/** A hostile actor, and what it may cause. */
export interface HostileRecord {
  name: string;
  from: number;
  to: number;
  hoardsSockets: boolean;
}

export interface LogSample {
  at: number;
  name: string;
  /** Since the last sample. */
  bytes: number;
}

export interface Ledger {
  app: string;
  /** Tokens in the bucket and on leases, at the end. */
  tokens: number;
  held: number;
  /** As the store counted it, over the whole run. */
  spent: number;
}

/** Buckets as the store has them, to explain a finding. */
export interface BucketSample {
  at: number;
  /** The fields of each hash. */
  hashes: Record<string, unknown>;
}

export interface History {
  durationMs: number;
  rules: Record<string, AppRules>;
  /** Processes that decide about requests. */
  nodes: number;
  failOpenTokens: number;
  /** Tokens of an app that a killed node may have spent without a report. */
  unreportedTokens: number;
  maxPerPod: number;
  /** A slot that is not renewed for this long is free. */
  slotLeaseMs: number;
  exchanges: Exchange[];
  faults: FaultRecord[];
  hostile: HostileRecord[];
  /** Times at which a service measured a degraded store. */
  degradedAt: number[];
  sockets: SocketSample[];
  /** When clients that are not hostile opened a WebSocket. */
  socketsOpenedAt: number[];
  processes: ProcessSample[];
  /** Open files by process name, before the load began and after all clients have disconnected. */
  filesAtStart: Record<string, number>;
  filesAtEnd: Record<string, number>;
  logs: LogSample[];
  buckets: BucketSample[];
  /** Open slots in the store after all clients have disconnected for longer than a lease. */
  slotsAtEnd: number;
  ledgers: Ledger[];
  /** Unexpected ends of processes, and error lines of their logs. */
  errors: string[];
}

/** A violation, found by the judge. */
export interface Finding {
  check: string;
  detail: string;
}
