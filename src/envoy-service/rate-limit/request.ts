/** Reads and validates RateLimitRequest messages of Envoy's Rate Limit Service v3. */
import type { Descriptor, Entry } from "../../descriptors/descriptor.js";
import type { Unit } from "../../descriptors/unit.js";
import { LENGTH, Reader, tag, VARINT } from "../grpc/protobuf.js";
import { GrpcError, INVALID_ARGUMENT } from "../grpc/status.js";

export interface RateLimitRequest {
  domain: string;
  descriptors: Descriptor[];
  /** At least 1. */
  hits: number;
}

/** Index: the number of the unit in the protocol. */
export const unitNames: (Unit | undefined)[] = [undefined, "second", "minute", "hour", "day", "month", "year", "week"];
export const unitNumbers = Object.fromEntries(
  unitNames.flatMap((unit, number) => (unit === undefined ? [] : [[unit, number]])),
) as Record<Unit, number>;

/** Throws a ProtobufError if the bytes are malformed, a GrpcError if the request is invalid. */
export function readRequest(message: Uint8Array): RateLimitRequest {
  const reader = new Reader(message);
  let domain = "";
  let hits = 0;
  const descriptors: Descriptor[] = [];
  while (reader.next()) {
    switch (reader.tag) {
      case tag(1, LENGTH):
        domain = reader.text();
        break;
      case tag(2, LENGTH):
        descriptors.push(readDescriptor(reader.message()));
        break;
      case tag(3, VARINT):
        hits = reader.uint32();
        break;
      default:
        reader.skip();
    }
  }
  return validated({ domain, descriptors, hits });
}

function readDescriptor(reader: Reader): Descriptor {
  const entries: Entry[] = [];
  const descriptor: Descriptor = { entries };
  while (reader.next()) {
    switch (reader.tag) {
      case tag(1, LENGTH):
        entries.push(readEntry(reader.message()));
        break;
      case tag(2, LENGTH):
        descriptor.override = readOverride(reader.message());
        break;
      case tag(3, LENGTH):
        descriptor.hits = readWrapped(reader.message());
        break;
      case tag(4, VARINT):
        descriptor.negative = reader.bool();
        break;
      default:
        reader.skip();
    }
  }
  return descriptor;
}

function readEntry(reader: Reader): Entry {
  const entry = { key: "", value: "" };
  while (reader.next()) {
    if (reader.tag === tag(1, LENGTH)) entry.key = reader.text();
    else if (reader.tag === tag(2, LENGTH)) entry.value = reader.text();
    else reader.skip();
  }
  return entry;
}

function readOverride(reader: Reader): NonNullable<Descriptor["override"]> {
  let perUnit = 0;
  let unit = 0;
  let multiplier = 1;
  while (reader.next()) {
    if (reader.tag === tag(1, VARINT)) perUnit = reader.uint32();
    else if (reader.tag === tag(2, VARINT)) unit = reader.uint32();
    else if (reader.tag === tag(3, LENGTH)) multiplier = readWrapped(reader.message());
    else reader.skip();
  }
  return overrideOf(perUnit, unitNames[unit], multiplier);
}

/** UInt64Value and UInt32Value. */
function readWrapped(reader: Reader): number {
  let value = 0;
  while (reader.next()) {
    if (reader.tag === tag(1, VARINT)) value = reader.uint();
    else reader.skip();
  }
  return value;
}

export function overrideOf(perUnit: number, unit: Unit | undefined, multiplier: number) {
  if (unit === undefined) throw invalid("limit.unit", "must be a unit of time");
  if (multiplier !== 1) throw invalid("limit.unit_multiplier", "must be 1: limits are stated per unit");
  return { perUnit, unit };
}

/** The rules of the protocol for all requests. */
export function validated({ domain, descriptors, hits }: RateLimitRequest): RateLimitRequest {
  if (domain === "") throw invalid("domain", "must not be empty");
  if (descriptors.length === 0) throw invalid("descriptors", "must not be empty");
  for (const { entries } of descriptors) {
    if (entries.length === 0) throw invalid("descriptors.entries", "must not be empty");
    for (const { key } of entries) if (key === "") throw invalid("descriptors.entries.key", "must not be empty");
  }
  return { domain, descriptors, hits: Math.max(hits, 1) };
}

function invalid(field: string, reason: string): GrpcError {
  return new GrpcError(INVALID_ARGUMENT, `${field} ${reason}`);
}
