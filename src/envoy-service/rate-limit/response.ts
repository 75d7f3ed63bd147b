/** Writes RateLimitResponse messages, in both encodings. */
import type { DescriptorStatus } from "../../limiter/descriptors/descriptor.js";
import { Writer } from "../grpc/protobuf-writer.js";
import type { RateLimitOutcome } from "./outcome.js";
import { unitNames } from "./request.js";

const OK = 1;
const OVER_LIMIT = 2;
const MAX_UINT32 = 0xffff_ffff;

/** Shared: writing a response is synchronous. */
const writer = new Writer();

export function writeResponse({ isOver, statuses, headers, body, metadata }: RateLimitOutcome): Buffer {
  writer.uint(1, isOver ? OVER_LIMIT : OK);
  for (const status of statuses) writeStatus(status);
  for (const [name, value] of headers) {
    const mark = writer.open(3);
    writer.text(1, name).text(2, value).close(mark);
  }
  if (body !== "") writer.explicitText(5, body);
  if (metadata !== undefined) writeStruct(6, metadata);
  return writer.finish();
}

function writeStatus({ allowed, limit, unlimited, remaining, resetMs }: DescriptorStatus): void {
  const status = writer.open(2);
  writer.uint(1, allowed ? OK : OVER_LIMIT);
  if (limit !== undefined) {
    const mark = writer.open(2);
    writer
      .uint(1, Math.min(limit.perUnit, MAX_UINT32))
      .uint(2, unitNames.indexOf(limit.unit))
      .text(3, limit.name)
      .close(mark);
  }
  writer.uint(3, remainingOf(unlimited, remaining));
  if (limit !== undefined) {
    const mark = writer.open(4);
    const seconds = Math.floor(resetMs / 1000);
    writer
      .uint(1, seconds)
      .uint(2, Math.round((resetMs - seconds * 1000) * 1_000) * 1_000)
      .close(mark);
  }
  writer.close(status);
}

/** An unlimited descriptor reports the largest number. */
function remainingOf(unlimited: boolean, remaining: number): number {
  return unlimited ? MAX_UINT32 : Math.min(Math.max(Math.floor(remaining), 0), MAX_UINT32);
}

/** google.protobuf.Struct */
function writeStruct(field: number, value: Record<string, unknown>): void {
  const struct = writer.open(field);
  for (const [name, inner] of Object.entries(value)) {
    if (inner === undefined) continue;
    const entry = writer.open(1);
    writer.text(1, name);
    writeValue(2, inner);
    writer.close(entry);
  }
  writer.close(struct);
}

/** google.protobuf.Value: a oneof, whose fields are written even if they have the default value. */
function writeValue(field: number, value: unknown): void {
  const mark = writer.open(field);
  if (typeof value === "number") writer.double(2, value);
  else if (typeof value === "string") writer.explicitText(3, value);
  else if (typeof value === "boolean") writer.explicitUint(4, value ? 1 : 0);
  else if (Array.isArray(value)) {
    const list = writer.open(6);
    for (const item of value) writeValue(1, item);
    writer.close(list);
  } else if (typeof value === "object" && value !== null) writeStruct(5, value as Record<string, unknown>);
  else writer.explicitUint(1, 0);
  writer.close(mark);
}

/** Fields with default values are left out. */
export function jsonOf({ isOver, statuses, headers, body, metadata }: RateLimitOutcome): Record<string, unknown> {
  return {
    overallCode: isOver ? "OVER_LIMIT" : "OK",
    statuses: statuses.map(jsonStatusOf),
    ...(headers.length === 0 ? {} : { responseHeadersToAdd: headers.map(([key, value]) => ({ key, value })) }),
    ...(body === "" ? {} : { rawBody: Buffer.from(body).toString("base64") }),
    ...(metadata === undefined ? {} : { dynamicMetadata: metadata }),
  };
}

function jsonStatusOf({ allowed, limit, unlimited, remaining, resetMs }: DescriptorStatus): Record<string, unknown> {
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
