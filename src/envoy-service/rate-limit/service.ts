/** Envoy's Rate Limit Service v3: each call is decided by the rules, from the leases of this process where they last. */

import type { DescriptorDecision } from "../../descriptors/descriptor.js";
import type { DescriptorLimiter } from "../../descriptors/descriptor-limiter.js";
import type { UnaryMethod } from "../grpc/server.js";
import { type RateLimitRequest, readRequest } from "./messages.js";
import { outcomeOf } from "./outcome.js";
import { writeResponse } from "./response.js";

export interface RateLimitServiceOptions {
  rules: Pick<DescriptorLimiter, "decide">;
  /** Whether clients are told their limits in headers. */
  responseHeaders(): boolean;
}

export const SHOULD_RATE_LIMIT = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

export function createRateLimitService({ rules, responseHeaders }: RateLimitServiceOptions): UnaryMethod {
  function answer(request: RateLimitRequest, verdict: DescriptorDecision): Buffer {
    return writeResponse(outcomeOf(request, verdict, responseHeaders()));
  }
  return {
    kind: "unary",
    path: SHOULD_RATE_LIMIT,
    call(message) {
      const request = readRequest(message);
      const verdict = rules.decide(request.domain, request.descriptors, request.hits);
      return verdict instanceof Promise ? verdict.then((later) => answer(request, later)) : answer(request, verdict);
    },
  };
}
