/** The options of the listener for Envoy: its rate limit service, its access logs, and what its Lua code asks. */
import { address, flag, otherwise, section, whole } from "./values.js";

export const envoy = section({
  listen: otherwise(
    "there is none",
    address()
      .optional()
      .describe(
        "Where Envoys are answered: gRPC over plaintext HTTP/2, and HTTP, for callers that `control.allow` lists. With a `control.plane_token` they must show it.",
      ),
  ),
  max_message_bytes: whole(1_024, 64 * 1_024 * 1_024)
    .default(4 * 1_024 * 1_024)
    .describe("Bytes of a message or a body at most."),
  response_headers: flag()
    .default(true)
    .describe("Whether the rate limit service has Envoy tell clients their limits in headers."),
});
