/** `POST /json`: the Rate Limit Service over HTTP, with the JSON encoding of the same messages. */
import { STORE_UNAVAILABLE } from "../../core/codes.js";
import type { DescriptorStatus } from "../../descriptors/descriptor.js";
import { WrongField } from "../grpc/message-type.js";
import { GrpcError, UNAVAILABLE } from "../grpc/status.js";
import { type HttpRoute, JSON_TYPE, problem } from "../http-routes.js";
import { outcomeOf, type RateLimitOutcome } from "./outcome.js";
import { type RateLimitRequest, readJsonRequest } from "./request.js";
import { MAX_UINT32, remainingOf } from "./response.js";
import type { RateLimitServiceOptions } from "./service.js";

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

/** Fields with default values are left out. */
function jsonOf({ isOver, statuses, headers, body, metadata }: RateLimitOutcome): Record<string, unknown> {
  return {
    overallCode: isOver ? "OVER_LIMIT" : "OK",
    statuses: statuses.map(statusOf),
    ...(headers.length === 0 ? {} : { responseHeadersToAdd: headers.map(([key, value]) => ({ key, value })) }),
    ...(body === "" ? {} : { rawBody: Buffer.from(body).toString("base64") }),
    ...(metadata === undefined ? {} : { dynamicMetadata: metadata }),
  };
}

function statusOf({ allowed, limit, unlimited, remaining, resetMs }: DescriptorStatus): Record<string, unknown> {
  const left = remainingOf(unlimited, remaining);
  const status: Record<string, unknown> = { code: allowed ? "OK" : "OVER_LIMIT" };
  if (limit !== undefined) {
    const { name, perUnit, unit } = limit;
    const current = { requestsPerUnit: Math.min(perUnit, MAX_UINT32), unit: unit.toUpperCase() };
    status.currentLimit = name === "" ? current : { name, ...current };
  }
  if (left !== 0) status.limitRemaining = left;
  if (limit !== undefined) status.durationUntilReset = `${(Math.round(resetMs) / 1000).toString()}s`;
  return status;
}
