/** All that a process does for Envoys: the listener, and the services behind it. */
import type { Config } from "../config/schema.js";
import type { DescriptorLimiter } from "../descriptors/descriptor-limiter.js";
import type { Limiter } from "../limiter/limiter.js";
import type { Log } from "../shared/log.js";
import { createCheckApi } from "./check-api.js";
import { createHealthService } from "./grpc/health-service.js";
import type { GrpcMethod } from "./grpc/server.js";
import { createEnvoyListener, type EnvoyListener } from "./listener.js";
import { createJsonApi } from "./rate-limit/json-api.js";
import { createRateLimitService } from "./rate-limit/service.js";

export interface EnvoySideOptions {
  /** In force now. */
  config(): Config;
  limiter: Pick<Limiter, "take">;
  rules: Pick<DescriptorLimiter, "decide">;
  /** Services besides that of rate limits. */
  methods: readonly GrpcMethod[];
  log: Log;
}

export function createEnvoySide({ config, limiter, rules, methods, log }: EnvoySideOptions): EnvoyListener {
  let serving = true;
  const rateLimit = { rules, responseHeaders: () => config().envoy.response_headers };
  const services = [createRateLimitService(rateLimit), ...methods];
  const names = services.map(({ path }) => path.split("/")[1] ?? "");
  const listener = createEnvoyListener({
    methods: [...services, createHealthService(names, () => serving)],
    routes: [
      createJsonApi(rateLimit),
      createCheckApi(limiter),
      { method: "GET", path: "/healthcheck", isPublic: true, handle: () => health(serving) },
    ],
    access: () => ({ planeToken: config().control.plane_token, allow: config().control.allow }),
    maxMessageBytes: () => config().envoy.max_message_bytes,
    log,
  });
  return {
    ...listener,
    close(graceMs) {
      serving = false;
      return listener.close(graceMs);
    },
  };
}

function health(serving: boolean) {
  return { status: serving ? 200 : 503, headers: { "content-type": "text/plain" }, body: serving ? "OK" : "STOPPING" };
}
