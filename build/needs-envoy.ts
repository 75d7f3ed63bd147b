/** What stands in the name of a test that was skipped because there is no Envoy; see test/support/envoy-binary.ts. */
export const NEEDS_ENVOY = "(needs Envoy)";
