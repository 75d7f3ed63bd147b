/** grpc.health.v1, for health checks by Envoy. */
import { MessageType, text } from "./message-type.js";
import { Writer } from "./protobuf-writer.js";
import type { UnaryMethod } from "./server.js";
import { GrpcError, NOT_FOUND } from "./status.js";

const SERVING = 1;
const NOT_SERVING = 2;
const request = new MessageType({ service: text(1) });

/** The empty name, which stands for the whole server, is added to `services`. */
export function createHealthService(services: readonly string[], isServing: () => boolean): UnaryMethod {
  const known = new Set(["", ...services]);
  return {
    path: "/grpc.health.v1.Health/Check",
    isPublic: true,
    call(message) {
      if (!known.has(request.decode(message).service)) throw new GrpcError(NOT_FOUND, "unknown service");
      return new Writer().uint(1, isServing() ? SERVING : NOT_SERVING).finish();
    },
  };
}
