/** Starts the listener for Envoy in this process on a free port, with decisions made by the test. */
import type { AddressInfo } from "node:net";
import { ALL_HEADERS } from "../../src/core/response-headers.js";
import type { EnvoyAccess } from "../../src/envoy-service/access.js";
import { createHealthService } from "../../src/envoy-service/grpc/health-service.js";
import type { UnaryMethod } from "../../src/envoy-service/grpc/server.js";
import { createEnvoyListener, type ListenerTimeouts } from "../../src/envoy-service/listener.js";
import { createJsonApi, createRateLimitService } from "../../src/envoy-service/rate-limit/service.js";
import type { DescriptorLimiter } from "../../src/limiter/descriptors/descriptor-limiter.js";
import type { Clock } from "../../src/shared/clock.js";

export interface ListenerUnderTest {
  readonly port: number;
  readonly address: string;
  readonly url: string;
  /** Logged errors. */
  readonly errors: unknown[];
  close(graceMs?: number): Promise<void>;
}

export interface ListenerUnderTestOptions {
  descriptors: Pick<DescriptorLimiter, "decide">;
  methods?: UnaryMethod[];
  access?: () => EnvoyAccess;
  maxMessageBytes?: number;
  timeouts?: Partial<ListenerTimeouts>;
  clock?: Clock;
}

export const everyone: EnvoyAccess = { planeToken: "", allow: ["127.0.0.0/8"] };

export async function startEnvoyListener(options: ListenerUnderTestOptions): Promise<ListenerUnderTest> {
  const { descriptors, methods = [], access = () => everyone, maxMessageBytes = 100_000, ...rest } = options;
  const errors: unknown[] = [];
  const rateLimit = { descriptors, headers: () => ALL_HEADERS };
  const listener = createEnvoyListener({
    methods: [createRateLimitService(rateLimit), createHealthService(["a.Service"], () => true), ...methods],
    routes: [createJsonApi(rateLimit)],
    ...rest,
    access,
    limits: () => ({ maxMessageBytes, maxBufferedBytes: 10 * maxMessageBytes, maxConnections: 1_000 }),
    log: { debug() {}, info() {}, warn() {}, error: (fields) => errors.push(fields) },
  });
  await new Promise<void>((resolve) => listener.server.listen(0, "127.0.0.1", resolve));
  const { port } = listener.server.address() as AddressInfo;
  return {
    port,
    address: `127.0.0.1:${port}`,
    url: `http://127.0.0.1:${port}`,
    errors,
    close: (graceMs = 2_000) => listener.close(graceMs),
  };
}
