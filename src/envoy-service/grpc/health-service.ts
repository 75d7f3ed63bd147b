/** grpc.health.v1: whether this process takes calls, for Envoy's health checks. */

import { LENGTH, Reader, tag } from "./protobuf.js";
import { Writer } from "./protobuf-writer.js";
import type { UnaryMethod } from "./server.js";
import { GrpcError, NOT_FOUND } from "./status.js";

const SERVING = 1;
const NOT_SERVING = 2;

/** `services` are the names besides the empty one, which stands for the whole server. */
export function createHealthService(services: readonly string[], isServing: () => boolean): UnaryMethod {
  const known = new Set(["", ...services]);
  const answers = { yes: new Writer().uint(1, SERVING).finish(), no: new Writer().uint(1, NOT_SERVING).finish() };
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
      if (!known.has(service)) throw new GrpcError(NOT_FOUND, "there is no such service");
      return isServing() ? answers.yes : answers.no;
    },
  };
}
