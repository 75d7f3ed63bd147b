/** Options of the listener for Envoy: rate limit service, access log service and check API. */
import { address, flag, optional, section, whole } from "../values.js";

export const envoy = section({
  listen: optional(address(), "no listener").describe(
    "Address for Envoy: gRPC over plaintext HTTP/2, and HTTP. Callers must be listed in `control.allow` and send `control.plane_token` if it is set.",
  ),
  max_message_bytes: whole(1_024, 64 * 1_024 * 1_024)
    .default(4 * 1_024 * 1_024)
    .describe("Maximum size of a message or body in bytes."),
  response_headers: flag()
    .default(true)
    .describe("Whether the rate limit service adds rate limit headers to responses."),
});
