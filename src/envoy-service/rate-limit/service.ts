/** Envoy's Rate Limit Service v3, over gRPC, and over HTTP (`POST /json`) with the JSON encoding of the same messages. */
import { STORE_UNAVAILABLE } from "../../core/codes.js";
import type { HeaderOptions } from "../../core/response-headers.js";
import type { DescriptorDecision } from "../../limiter/descriptors/descriptor.js";
import type { DescriptorLimiter } from "../../limiter/descriptors/descriptor-limiter.js";
import { WrongField } from "../grpc/message-type.js";
import type { UnaryMethod } from "../grpc/server.js";
import { GrpcError, UNAVAILABLE } from "../grpc/status.js";
import { type HttpRoute, JSON_TYPE, problem } from "../http-routes.js";
import { outcomeOf } from "./outcome.js";
import { type RateLimitRequest, readJsonRequest, readRequest } from "./request.js";
import { jsonOf, writeResponse } from "./response.js";

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
    path: SHOULD_RATE_LIMIT,
    call(message) {
      const request = readRequest(message);
      const decision = descriptors.decide(request.domain, request.descriptors, request.hits);
      return decision instanceof Promise ? decision.then((made) => reply(request, made)) : reply(request, decision);
    },
  };
}

export function createJsonApi({ descriptors, headers }: RateLimitServiceOptions): HttpRoute {
  return {
    method: "POST",
    path: "/json",
    async handle(body) {
      let request: RateLimitRequest;
      try {
        request = readJsonRequest(JSON.parse(body.toString("utf8")));
      } catch (error) {
        if (error instanceof SyntaxError)
          return problem(400, "bad_request", "invalid_argument", "the body must be JSON");
        if (!(error instanceof GrpcError || error instanceof WrongField)) throw error;
        return problem(400, "bad_request", "invalid_argument", error.message);
      }
      const decision = await descriptors.decide(request.domain, request.descriptors, request.hits);
      try {
        const outcome = outcomeOf(request, decision, headers());
        const text = `${JSON.stringify(jsonOf(outcome))}\n`;
        return { status: outcome.isOver ? 429 : 200, headers: JSON_TYPE, body: text };
      } catch (error) {
        if (!(error instanceof GrpcError) || error.status !== UNAVAILABLE) throw error;
        return problem(503, "service_unavailable", STORE_UNAVAILABLE, error.message);
      }
    },
  };
}
