/** Histogram buckets for latencies, in seconds, of all planes. */
export const LATENCY_BOUNDS_SECONDS = [
  0.000001, 0.000005, 0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
];
