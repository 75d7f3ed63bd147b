/** Reads and validates RateLimitRequest messages of Envoy's Rate Limit Service v3, in both encodings. */
import type { Descriptor, Unit } from "../../limiter/descriptors/descriptor.js";
import { bool, list, MessageType, nested, text, uint32, uint64, wrapped } from "../grpc/message-type.js";
import { GrpcError, INVALID_ARGUMENT } from "../grpc/status.js";

export interface RateLimitRequest {
  domain: string;
  descriptors: Descriptor[];
  /** At least 1. */
  hits: number;
  /** As the caller stated it; 0 if it did not. */
  hitsAddend: number;
}

/** Index: the number of the unit in the protocol. */
export const unitNames: (Unit | undefined)[] = [undefined, "second", "minute", "hour", "day", "month", "year", "week"];

const limitMessage = new MessageType({
  requests_per_unit: uint32(1),
  unit: {
    ...uint32(2),
    fromJson: (value) =>
      typeof value === "number" ? value : unitNames.findIndex((unit) => unit?.toUpperCase() === value),
  },
  unit_multiplier: wrapped(3, uint32),
});

const descriptorMessage = new MessageType({
  entries: list(1, new MessageType({ key: text(1), value: text(2) })),
  limit: nested(2, limitMessage),
  hits_addend: wrapped(3, uint64),
  is_negative_hits: bool(4),
});

const requestMessage = new MessageType({
  domain: text(1),
  descriptors: list(2, descriptorMessage),
  hits_addend: uint32(3),
});

type Fields<T> = T extends MessageType<infer F> ? F : never;

/** Throws a ProtobufError if the bytes are malformed, a GrpcError if the request is invalid. */
export function readRequest(message: Uint8Array): RateLimitRequest {
  return requestOf(requestMessage.decode(message));
}

/** Throws a WrongField if the value does not encode a request, a GrpcError if the request is invalid. */
export function readJsonRequest(value: unknown): RateLimitRequest {
  return requestOf(requestMessage.fromJson(value));
}

function requestOf({ domain, descriptors, hits_addend: hits }: Fields<typeof requestMessage>): RateLimitRequest {
  if (domain === "") throw invalid("domain", "must not be empty");
  if (descriptors.length === 0) throw invalid("descriptors", "must not be empty");
  return { domain, descriptors: descriptors.map(descriptorOf), hits: Math.max(hits, 1), hitsAddend: hits };
}

function descriptorOf(fields: Fields<typeof descriptorMessage>): Descriptor {
  const { entries, limit, hits_addend: hits, is_negative_hits: negative } = fields;
  if (entries.length === 0) throw invalid("descriptors.entries", "must not be empty");
  for (const { key } of entries) if (key === "") throw invalid("descriptors.entries.key", "must not be empty");
  const descriptor: Descriptor = { entries };
  if (negative) descriptor.negative = true;
  if (hits !== undefined) descriptor.hits = hits;
  if (limit !== undefined) descriptor.override = overrideOf(limit);
  return descriptor;
}

function overrideOf({ requests_per_unit: perUnit, unit_multiplier, unit: number }: Fields<typeof limitMessage>) {
  const unit = unitNames[number];
  if (unit === undefined) throw invalid("limit.unit", "must be a unit of time");
  if ((unit_multiplier ?? 1) !== 1) throw invalid("limit.unit_multiplier", "must be 1: limits are stated per unit");
  return { perUnit, unit };
}

function invalid(field: string, reason: string): GrpcError {
  return new GrpcError(INVALID_ARGUMENT, `${field} ${reason}`);
}
