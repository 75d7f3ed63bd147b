/** Marks the name of a test that was skipped because Envoy is not available; see test/support/envoy-binary.ts. */
export const NEEDS_ENVOY = "(needs Envoy)";
