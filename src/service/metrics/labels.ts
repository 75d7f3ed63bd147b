/** Label values of metrics. They come from fixed lists and the configuration only: no request can create a new one. */
import * as codes from "../../core/codes.js";

/** Label of apps without their own label. */
export const OTHER_APPS = "other";
/** Label of requests without an app: unknown, or not identified. */
export const NO_APP = "none";

/** Label of all other methods. */
export const OTHER_METHODS = "OTHER";
export const methodLabels = ["GET", "HEAD", "OPTIONS", "DELETE", "POST", "PUT", "PATCH", OTHER_METHODS];

/** Refusal codes of requests. Those of slots are in upper case. */
export const reasons: readonly string[] = Object.values(codes).filter(
  (code) => code !== codes.OK && code === code.toLowerCase(),
);

/** `limit`: a limit of `limits`. The others are decided for the app. */
export const layerNames = ["L1", "L2", "L3", "emergency", "store", "identity", "limit"] as const;
export type Layer = (typeof layerNames)[number];

const layers: Record<string, Exclude<Layer, "limit">> = {
  [codes.QUOTA_EXHAUSTED]: "L2",
  [codes.COST_EXCEEDS_CAPACITY]: "L2",
  [codes.CLUSTER_EXHAUSTED]: "L1",
  [codes.EMERGENCY_BLOCKED]: "emergency",
  [codes.STORE_UNAVAILABLE]: "store",
  [codes.UNKNOWN_APP]: "identity",
  [codes.INVALID_IDENTITY]: "identity",
};

/** Where a refusal of an app with this code is decided. Invalid requests are refused at the lease. */
export function appLayerOf(code: string): Exclude<Layer, "limit"> {
  return layers[code] ?? "L3";
}

/** `limitName`: the limit of `limits` that refused, if it was one of them. */
export function layerOf(code: string, limitName?: string): Layer {
  return limitName === undefined ? appLayerOf(code) : "limit";
}

const successes: readonly string[] = [codes.SLOT_SUCCESS, codes.SLOT_ALREADY_HELD];

/** Refusal codes of connections. */
export const connectionReasons: readonly string[] = [
  ...Object.values(codes).filter((code) => code === code.toUpperCase() && !successes.includes(code)),
  codes.STORE_UNAVAILABLE,
  "other",
];

export const listeners = ["gateway", "envoy", "control"] as const;
export type Listener = (typeof listeners)[number];

export const exporters = ["statsd", "graphite", "otlp_metrics", "otlp_traces"] as const;
export type Exporter = (typeof exporters)[number];

export const syncOutcomes = ["ok", "error", "timeout"] as const;

/** The first `most` apps of the configuration have their own label. Every process must assign the same labels. */
export function appLabels(apps: readonly string[], most: number): Map<string, string> {
  return new Map(apps.map((app, index) => [app, index < most ? app : OTHER_APPS]));
}
