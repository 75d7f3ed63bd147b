/** `POST /json`: the Rate Limit Service over HTTP, with the JSON encoding of the same messages. */
import { STORE_UNAVAILABLE } from "../../core/codes.js";
import type { Descriptor, DescriptorStatus, Entry } from "../../descriptors/descriptor.js";
import { GrpcError, UNAVAILABLE } from "../grpc/status.js";
import { type HttpRoute, JSON_TYPE, problem } from "../http-routes.js";
import { outcomeOf, type RateLimitOutcome } from "./outcome.js";
import { overrideOf, type RateLimitRequest, unitNames, unitNumbers, validated } from "./request.js";
import { MAX_UINT32, remainingOf } from "./response.js";
import type { RateLimitServiceOptions } from "./service.js";

export function createJsonApi({ descriptors, headers }: RateLimitServiceOptions): HttpRoute {
  return {
    method: "POST",
    path: "/json",
    async handle(body) {
      let request: RateLimitRequest;
      try {
        request = requestOf(JSON.parse(body.toString("utf8")));
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

class WrongField extends Error {
  constructor(field: string, wanted: string) {
    super(`${field} must be ${wanted}`);
  }
}

type Fields = Record<string, unknown>;

function requestOf(value: unknown): RateLimitRequest {
  const fields = fieldsOf(value, "the body", ["domain", "descriptors", "hits_addend"]);
  return validated({
    domain: textOf(fields.domain, "domain"),
    descriptors: listOf(fields.descriptors, "descriptors").map(descriptorOf),
    hits: wholeOf(fields.hits_addend, "hits_addend", MAX_UINT32) ?? 0,
  });
}

function descriptorOf(value: unknown, i: number): Descriptor {
  const at = `descriptors[${i}]`;
  const fields = fieldsOf(value, at, ["entries", "limit", "hits_addend", "is_negative_hits"]);
  const { limit, is_negative_hits: negative = false } = fields;
  const hits = wholeOf(fields.hits_addend, `${at}.hits_addend`, Number.MAX_SAFE_INTEGER);
  if (typeof negative !== "boolean") throw new WrongField(`${at}.is_negative_hits`, "true or false");
  const entries = listOf(fields.entries, `${at}.entries`).map((entry, j) => entryOf(entry, `${at}.entries[${j}]`));
  return {
    entries,
    negative,
    ...(hits === undefined ? {} : { hits }),
    ...(limit === undefined ? {} : { override: limitOf(limit, `${at}.limit`) }),
  };
}

function entryOf(value: unknown, at: string): Entry {
  const fields = fieldsOf(value, at, ["key", "value"]);
  return { key: textOf(fields.key, `${at}.key`), value: textOf(fields.value, `${at}.value`) };
}

function limitOf(value: unknown, at: string) {
  const fields = fieldsOf(value, at, ["requests_per_unit", "unit", "unit_multiplier"]);
  const { unit } = fields;
  const name = typeof unit === "number" ? unitNames[unit] : unitNames.find((one) => one?.toUpperCase() === unit);
  const perUnit = wholeOf(fields.requests_per_unit, `${at}.requests_per_unit`, MAX_UINT32) ?? 0;
  return overrideOf(perUnit, name, wholeOf(fields.unit_multiplier, `${at}.unit_multiplier`, MAX_UINT32) ?? 1);
}

/** Names as in the protocol or in camel case. Other names are rejected, as the JSON encoding requires. */
function fieldsOf(value: unknown, at: string, names: string[]): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new WrongField(at, "an object");
  const fields: Fields = {};
  for (const [given, inner] of Object.entries(value)) {
    const name = names.find((one) => one === given || camelCase(one) === given);
    if (name === undefined) throw new WrongField(at, `an object with ${names.join(", ")} only`);
    // null stands for what is not there.
    if (inner !== null) fields[name] = inner;
  }
  return fields;
}

const camelCase = (name: string) => name.replace(/_([a-z])/g, (_all, letter: string) => letter.toUpperCase());

function listOf(value: unknown, at: string): unknown[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw new WrongField(at, "a list");
  return value;
}

function textOf(value: unknown, at: string): string {
  if (value === undefined) return "";
  if (typeof value !== "string") throw new WrongField(at, "a text");
  return value;
}

/** A number, or a string of digits. Values above 2^53 - 1 are read as 2^53 - 1, as in the binary encoding. */
function wholeOf(value: unknown, at: string, most: number): number | undefined {
  if (value === undefined) return undefined;
  const number = typeof value === "string" && /^[0-9]{1,20}$/.test(value) ? Number(value) : value;
  const isWhole = typeof number === "number" && number >= 0 && Number.isInteger(number);
  if (!isWhole || (number > most && most === MAX_UINT32) || number > 2 ** 64) {
    throw new WrongField(at, `a whole number from 0 to ${most === MAX_UINT32 ? "2^32 - 1" : "2^64 - 1"}`);
  }
  return Math.min(number, most);
}

/** Fields with default values are left out. */
function jsonOf({ isOver, statuses, headers, body, metadata }: RateLimitOutcome): Fields {
  return {
    overallCode: isOver ? "OVER_LIMIT" : "OK",
    statuses: statuses.map(statusOf),
    ...(headers.length === 0 ? {} : { responseHeadersToAdd: headers.map(([key, value]) => ({ key, value })) }),
    ...(body === "" ? {} : { rawBody: Buffer.from(body).toString("base64") }),
    ...(metadata === undefined ? {} : { dynamicMetadata: metadata }),
  };
}

function statusOf({ allowed, limit, unlimited, remaining, resetMs }: DescriptorStatus): Fields {
  const left = remainingOf(unlimited, remaining);
  const status: Fields = { code: allowed ? "OK" : "OVER_LIMIT" };
  if (limit !== undefined) {
    const { name, perUnit, unit } = limit;
    const unitName = unitNames[unitNumbers[unit]]!.toUpperCase();
    const current = { requestsPerUnit: Math.min(perUnit, MAX_UINT32), unit: unitName };
    status.currentLimit = name === "" ? current : { name, ...current };
  }
  if (left !== 0) status.limitRemaining = left;
  if (limit !== undefined) status.durationUntilReset = `${(Math.round(resetMs) / 1000).toString()}s`;
  return status;
}
