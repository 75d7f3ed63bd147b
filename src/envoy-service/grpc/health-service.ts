/** grpc.health.v1, for health checks by Envoy. */
import { LENGTH, Reader, tag } from "./protobuf.js";
import { Writer } from "./protobuf-writer.js";
import type { UnaryMethod } from "./server.js";
import { GrpcError, NOT_FOUND } from "./status.js";

const SERVING = 1;
const NOT_SERVING = 2;

/** The empty name, which stands for the whole server, is added to `services`. */
export function createHealthService(services: readonly string[], isServing: () => boolean): UnaryMethod {
  const known = new Set(["", ...services]);
  return {
    kind: "unary",
    path: "/grpc.health.v1.Health/Check",
    isPublic: true,
    call(message) {
      const reader = new Reader(message);
      let service = "";
      while (reader.next()) {
        if (reader.tag === tag(1, LENGTH)) service = reader.text();
        else reader.skip();
      }
      if (!known.has(service)) throw new GrpcError(NOT_FOUND, "unknown service");
      return new Writer().uint(1, isServing() ? SERVING : NOT_SERVING).finish();
    },
  };
}
