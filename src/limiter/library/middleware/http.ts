/** Middleware for node:http, and for frameworks with `(request, response, next)`. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { MiddlewareOptions } from "./middleware.js";
import { createHandler } from "./node.js";

/**
 * Middleware for node:http. `const check = limit({ limiter }); createServer((request, response) => check(request, response, () =>
 * response.end("hello")))`
 */
export function limit<Request extends IncomingMessage = IncomingMessage>(
  options: MiddlewareOptions<Request>,
): (request: Request, response: ServerResponse, next: (error?: unknown) => void) => void {
  return createHandler(options);
}

/**
 * Throws an error: the plugin is in "@tollgate/limiter/fastify".
 * @deprecated
 */
export function limitPlugin(): never {
  throw new TypeError('limitPlugin is in "@tollgate/limiter/fastify", or "tollgate/fastify"');
}
