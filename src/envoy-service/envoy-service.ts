/** The service for Envoys: one listener with the Rate Limit Service, health checks and HTTP routes. */
import type { EnvoyServiceOptions } from "../config/options/service.js";
import type { DescriptorLimiter } from "../limiter/descriptors/descriptor-limiter.js";
import type { Log } from "../shared/log.js";
import { createHealthService } from "./grpc/health-service.js";
import type { HttpRoute } from "./http-routes.js";
import { createEnvoyListener } from "./listener.js";
import { createJsonApi, createRateLimitService } from "./rate-limit/service.js";

export interface EnvoyServiceDependencies {
  descriptors: Pick<DescriptorLimiter, "decide">;
  /** Whether to refuse a call because of overload. */
  sheds(): boolean;
  log: Log;
}

export function createEnvoyService(
  initial: EnvoyServiceOptions,
  { descriptors, sheds, log }: EnvoyServiceDependencies,
) {
  let options = initial;
  let serving = true;
  const service = { descriptors, headers: () => options.headers };
  const rateLimit = createRateLimitService(service);
  const name = rateLimit.path.split("/")[1] ?? "";
  const healthCheck: HttpRoute = {
    method: "GET",
    path: "/healthcheck",
    isPublic: true,
    handle: () => ({
      status: serving ? 200 : 503,
      headers: { "content-type": "text/plain" },
      body: serving ? "OK" : "STOPPING",
    }),
  };
  const listener = createEnvoyListener({
    methods: [rateLimit, createHealthService([name], () => serving)],
    routes: [createJsonApi(service), healthCheck],
    access: () => options.access,
    limits: () => options.limits,
    sheds,
    log,
  });
  return {
    ...listener,
    reconfigure(changed: EnvoyServiceOptions): void {
      options = changed;
    },
    close(graceMs: number): Promise<void> {
      serving = false;
      return listener.close(graceMs);
    },
  };
}
