/** Heads of HTTP/2 requests to the listener for Envoy. */
import { headerBlock } from "./http2-frames.js";

export const getHead = (path: string, method = "GET") =>
  headerBlock({ ":method": method, ":scheme": "http", ":authority": "a", ":path": path });

export const grpcHead = headerBlock({
  ":method": "POST",
  ":scheme": "http",
  ":authority": "a",
  ":path": "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
  "content-type": "application/grpc",
});
