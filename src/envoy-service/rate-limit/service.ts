/** Envoy's Rate Limit Service v3. */
import type { HeaderOptions } from "../../core/refusals.js";
import type { DescriptorDecision } from "../../descriptors/descriptor.js";
import type { DescriptorLimiter } from "../../descriptors/descriptor-limiter.js";
import type { UnaryMethod } from "../grpc/server.js";
import { outcomeOf } from "./outcome.js";
import { type RateLimitRequest, readRequest } from "./request.js";
import { writeResponse } from "./response.js";

export interface RateLimitServiceOptions {
  descriptors: Pick<DescriptorLimiter, "decide">;
  /** Headers for the client; undefined: none. */
  headers(): HeaderOptions | undefined;
}

export const SHOULD_RATE_LIMIT = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

export function createRateLimitService({ descriptors, headers }: RateLimitServiceOptions): UnaryMethod {
  function reply(request: RateLimitRequest, decision: DescriptorDecision): Buffer {
    return writeResponse(outcomeOf(request, decision, headers()));
  }
  return {
    kind: "unary",
    path: SHOULD_RATE_LIMIT,
    call(message) {
      const request = readRequest(message);
      const decision = descriptors.decide(request.domain, request.descriptors, request.hits);
      return decision instanceof Promise ? decision.then((made) => reply(request, made)) : reply(request, decision);
    },
  };
}
