/** Middleware for Express. */
import type { Request, RequestHandler } from "express";
import type { MiddlewareOptions } from "./middleware.js";
import { createHandler } from "./node.js";

export type { MiddlewareOptions };

/** `app.use(limit({ limiter, app: (request) => request.team }))` */
export function limit(options: MiddlewareOptions<Request>): RequestHandler {
  return createHandler(options);
}
