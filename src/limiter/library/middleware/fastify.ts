/** Plugin for Fastify. */
import type { FastifyPluginCallback, FastifyRequest } from "fastify";
import type { MiddlewareOptions, Verdict } from "./middleware.js";
import { createNodeChecks } from "./node.js";

export type { MiddlewareOptions };

/**
 * `fastify.register(limitPlugin, { limiter, app: (request) => request.team })`. It decides in an `onRequest` hook: hooks that were added
 * before run before it.
 */
export const limitPlugin: FastifyPluginCallback<MiddlewareOptions<FastifyRequest>> = (fastify, options, registered) => {
  const check = createNodeChecks(options);
  fastify.addHook("onRequest", (request, reply, next) => {
    const handle = ({ headers, refusal }: Verdict): void => {
      reply.headers(headers);
      if (refusal === undefined) next();
      else reply.code(refusal.status).type("application/json").send(refusal.body);
    };
    const made = check(request, { request: request.raw, response: reply.raw });
    if (made instanceof Promise) made.then(handle, next);
    else handle(made);
  });
  registered();
};

// The hook applies to the whole server, not only to routes registered inside the plugin.
Object.assign(limitPlugin, { [Symbol.for("skip-override")]: true });
