/** An independent gRPC client (grpc-js) with the official messages, to send what Envoy sends. */
import { fileURLToPath } from "node:url";
import {
  type CallOptions,
  Client,
  credentials,
  type GrpcObject,
  loadPackageDefinition,
  Metadata,
  type ServiceClientConstructor,
  type ServiceError,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const deps = fileURLToPath(new URL("../../node_modules/@grpc/grpc-js-xds/deps/", import.meta.url));
const own = fileURLToPath(new URL("./protos/", import.meta.url));
const official = ["envoy-api", "xds", "protoc-gen-validate", "googleapis"].map((name) => `${deps}${name}`);
const options = { keepCase: true, longs: String, enums: String, bytes: Buffer, defaults: false };

export interface RateLimitCall {
  domain?: string;
  hits_addend?: number;
  descriptors?: {
    entries?: { key?: string; value?: string }[];
    limit?: { requests_per_unit?: number; unit?: string; unit_multiplier?: { value: number } };
    hits_addend?: { value: number | string };
    is_negative_hits?: boolean;
  }[];
}

export interface RateLimitReply {
  overall_code?: string;
  statuses?: {
    code?: string;
    current_limit?: { name?: string; requests_per_unit?: number; unit?: string };
    limit_remaining?: number;
    duration_until_reset?: { seconds?: string; nanos?: number };
  }[];
  response_headers_to_add?: { key: string; value: string }[];
  raw_body?: Buffer;
  dynamic_metadata?: { fields: Record<string, unknown> };
}

export interface RateLimitClient {
  ask(call: RateLimitCall, metadata?: Record<string, string>, options?: CallOptions): Promise<RateLimitReply>;
  health(service?: string): Promise<string>;
  /** Calls any method with any bytes. */
  raw(path: string, bytes: Buffer, metadata?: Record<string, string>, options?: CallOptions): Promise<Buffer>;
  close(): void;
}

/** `official` uses the published protos of the dev dependency, otherwise newer ones with more fields. */
export function connectRateLimitClient(address: string, protos: "official" | "newer" = "newer"): RateLimitClient {
  const includeDirs = protos === "official" ? official : [own, ...official];
  const rls = serviceOf(
    "envoy/service/ratelimit/v3/rls.proto",
    includeDirs,
    "envoy.service.ratelimit.v3.RateLimitService",
  );
  const limits = new rls(address, credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
  const healths = new (serviceOf("health.proto", [own], "grpc.health.v1.Health"))(
    address,
    credentials.createInsecure(),
  );
  const any = new Client(address, credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });

  function call<T>(
    client: Client,
    method: string,
    message: unknown,
    metadata: Record<string, string>,
    more: CallOptions,
  ) {
    return new Promise<T>((resolve, reject) => {
      const headers = new Metadata();
      for (const [name, value] of Object.entries(metadata)) headers.set(name, value);
      const done = (error: ServiceError | null, reply: T) => (error === null ? resolve(reply) : reject(error));
      (client as unknown as Record<string, (...args: unknown[]) => void>)[method]!(message, headers, more, done);
    });
  }

  return {
    ask: (asked, metadata = {}, more = {}) => call<RateLimitReply>(limits, "ShouldRateLimit", asked, metadata, more),
    health: async (service = "") => (await call<{ status: string }>(healths, "Check", { service }, {}, {})).status,
    raw: (path, bytes, metadata = {}, more = {}) =>
      new Promise((resolve, reject) => {
        const headers = new Metadata();
        for (const [name, value] of Object.entries(metadata)) headers.set(name, value);
        const same = (value: Buffer) => value;
        any.makeUnaryRequest(path, same, same, bytes, headers, more, (error, reply) =>
          error === null ? resolve(reply ?? Buffer.alloc(0)) : reject(error),
        );
      }),
    close() {
      for (const client of [limits, healths, any]) client.close();
    },
  };
}

function serviceOf(file: string, includeDirs: string[], name: string): ServiceClientConstructor {
  let found: GrpcObject = loadPackageDefinition(loadSync(file, { ...options, includeDirs }));
  for (const part of name.split(".").slice(0, -1)) found = found[part] as GrpcObject;
  return found[name.split(".").at(-1)!] as ServiceClientConstructor;
}
