/** All targets by name. */
import type { FuzzTarget } from "../target.js";
import { config } from "./config.js";
import { gatewayHttp2 } from "./gateway-http2.js";
import { grpc } from "./grpc.js";
import { http1 } from "./http1.js";
import { http2 } from "./http2.js";
import { sync } from "./sync.js";

export const targets: Record<string, FuzzTarget> = {
  grpc,
  sync,
  http1,
  http2,
  "gateway-http2": gatewayHttp2,
  config,
};
