/** One server of the bench: `tsx rls-side.ts own|grpc-js` starts it and prints its port. */
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import {
  type GrpcObject,
  loadPackageDefinition,
  Server,
  ServerCredentials,
  type ServiceClientConstructor,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { standardProfile } from "../src/core/cost.js";
import { ALL_HEADERS } from "../src/core/response-headers.js";
import { createEnvoyListener } from "../src/envoy-service/listener.js";
import { outcomeOf, type RateLimitOutcome } from "../src/envoy-service/rate-limit/outcome.js";
import type { RateLimitRequest } from "../src/envoy-service/rate-limit/request.js";
import { createRateLimitService } from "../src/envoy-service/rate-limit/service.js";
import { createDescriptorLimiter } from "../src/limiter/descriptors/descriptor-limiter.js";
import { createLimiter } from "../src/limiter/limiter.js";
import { createQuota } from "../src/quota/quota.js";
import { createEmbeddedStore } from "../src/store/embedded/embedded-store.js";

const PLENTY = 1e9;
const [kind = ""] = process.argv.slice(2);

const quota = createQuota(createEmbeddedStore(), { id: "bench", capacity: PLENTY, rate: PLENTY, nodeTtlMs: 10_000 });
const app = { id: "video", guaranteed: PLENTY, burst: PLENTY, priority: 1, borrow: false };
const limiter = createLimiter({
  node: "bench",
  target: quota,
  lease: { reserve: 1_000_000 },
  apps: [{ ...app, profile: standardProfile, onStoreFailure: "open", dryRun: false }],
});
const descriptors = createDescriptorLimiter({ limiter, domains: [], maxValues: 1_000 });

function own(): void {
  const { server } = createEnvoyListener({
    methods: [createRateLimitService({ descriptors, headers: () => ALL_HEADERS })],
    routes: [],
    access: () => access,
    limits: () => ({ maxMessageBytes: 1_000_000, maxBufferedBytes: 64 * 1_048_576, maxConnections: 4_096 }),
    log: { debug() {}, info() {}, warn() {}, error: console.error },
  });
  server.listen(0, "127.0.0.1", () => console.log((server.address() as AddressInfo).port));
}
const access = { planeToken: "", allow: ["127.0.0.0/8"] };

interface Call {
  request: { domain: string; descriptors: RateLimitRequest["descriptors"]; hits_addend: number };
}

/** The same decisions behind a grpc-js server. */
function grpcJs(): void {
  const deps = fileURLToPath(new URL("../node_modules/@grpc/grpc-js-xds/deps/", import.meta.url));
  const includeDirs = ["envoy-api", "xds", "protoc-gen-validate", "googleapis"].map((name) => `${deps}${name}`);
  const options = { keepCase: true, includeDirs };
  let found = loadPackageDefinition(loadSync("envoy/service/ratelimit/v3/rls.proto", options));
  for (const name of ["envoy", "service", "ratelimit", "v3"]) found = found[name] as GrpcObject;
  const server = new Server();
  server.addService((found.RateLimitService as ServiceClientConstructor).service, {
    async ShouldRateLimit({ request }: Call, answer: (error: null, response: object) => void) {
      const asked = {
        domain: request.domain,
        descriptors: request.descriptors,
        hits: Math.max(request.hits_addend, 1),
        hitsAddend: request.hits_addend,
      };
      const verdict = await descriptors.decide(
        asked.domain,
        asked.descriptors.map(({ entries }) => ({ entries })),
        asked.hits,
      );
      answer(null, responseOf(outcomeOf(asked, verdict, ALL_HEADERS)));
    },
  });
  server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (_error, port) => console.log(port));
}

function responseOf({ isOver, statuses, headers }: RateLimitOutcome): object {
  return {
    overall_code: isOver ? 2 : 1,
    statuses: statuses.map(({ allowed, limit, remaining, resetMs }) => ({
      code: allowed ? 1 : 2,
      current_limit: { name: limit?.name, requests_per_unit: limit?.perUnit, unit: 1 },
      limit_remaining: remaining,
      duration_until_reset: { seconds: Math.floor(resetMs / 1000), nanos: 0 },
    })),
    response_headers_to_add: headers.map(([key, value]) => ({ key, value })),
  };
}

if (kind === "own") own();
else grpcJs();
