/** What the service sends to the dashboard in the browser. Types only: both sides import them. */
import type { Reason } from "../metrics/refusal-counts.js";
import type { AppReply, ConnectionsReply, StatusReply } from "../operations/contract/contract.js";
import type { Rates } from "./meter.js";

/** One sample of the last 15 minutes. */
export interface HistoryPoint extends Omit<Rates, "seconds"> {
  /** Unix time in seconds. */
  at: number;
  level: number;
  connections: number;
  /** Tokens in L1; null if unknown. Read only while somebody watches. */
  l1_tokens: number | null;
}

/** The traffic of one app, per second. */
export interface AppPoint {
  /** Unix time in seconds. */
  at: number;
  requests: number;
  refused: number;
  /** Admitted only because of a dry run: they would be refused without it. */
  dry_run: number;
}

export interface History {
  points: HistoryPoint[];
  interval_seconds: number;
  /** Of the app whose page is open. */
  traffic?: readonly AppPoint[];
}

export interface BusyApp {
  app_id: string;
  /** Per second. */
  requests: number;
  refused: number;
  /** Admitted only because of a dry run: they would be refused without it. */
  dry_run: number;
  /** Since the workers started. */
  total: number;
  total_refused: number;
  total_dry_run: number;
}

export interface RecentRefusal {
  /** Unix time in milliseconds. */
  at: number;
  app_id: string;
  node_id: string;
  code: string;
  layer: string;
  method: string;
  cost: number;
  limit: number;
  /** The limit of `limits` that refused; null if it was none of them. */
  limit_name: string | null;
  retry_after_ms: number;
  dry_run: boolean;
  explanation: string;
}

export interface Overview {
  status: Omit<StatusReply, "nodes">;
  nodes: { alive: number; silent: number; held: number };
  /** Null until there are two readings. */
  rates: Rates | null;
  /** Refusals since the workers started by reason, then what would be refused without a dry run. */
  refusals: Reason[];
  /** Connections refused by this service since it started, by reason. */
  connection_refusals: { code: string; total: number }[];
  store: { kind: string; answers: boolean; latency_ms: number | null; warnings: string[]; errors: number };
  cluster: { id: string; tokens: number | null; held: number | null; capacity: number; rate: number };
  /** Versions of the configuration in use by the workers of this service. */
  config_versions: string[];
  config_error: string | null;
  busiest: BusyApp[];
  apps_total: number;
  recent_refusals: RecentRefusal[];
}

export interface FlowApp extends BusyApp {
  guaranteed: number;
  burst: number;
  tokens: number | null;
  debt: number | null;
  held: number;
  recalled: boolean;
  /** Tokens of the app on the leases of the nodes, in the order of `nodes`. */
  leases: number[];
}

export interface Flow {
  cluster: Overview["cluster"];
  apps: FlowApp[];
  nodes: { node_id: string; alive: boolean; held: number }[];
  /** Further nodes that hold tokens. */
  more_nodes: number;
}

export interface PlaneNode {
  node_id: string;
  /** Empty if unknown: the node reports to another service. */
  kind: string;
  alive: boolean;
  silent_ms: number;
  held: number;
  level: number | null;
  emergency: boolean | null;
  config_version: string | null;
  slots: number | null;
  memory_used_mb: number | null;
  memory_free_mb: number | null;
  syncs: number | null;
  failed_syncs: number | null;
}

export interface Nodes {
  nodes: PlaneNode[];
  /** The store does not answer: only nodes of this service are listed. */
  partial: boolean;
}

/** The message of every second: the overview, and the data of the view that is open. */
export interface State {
  overview: Overview;
  flow?: Flow;
  connections?: ConnectionsReply;
  nodes?: Nodes;
  app?: AppReply | { missing: string };
  /** Of this app, in the last second. */
  traffic?: Omit<AppPoint, "at">;
}

/** GET /dashboard/session. */
export interface SessionReply {
  operator: string;
  can_change: boolean;
  node_id: string;
  version: string;
}
