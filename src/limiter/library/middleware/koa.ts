/** Middleware for Koa. */
import type { DefaultContext, DefaultState, Middleware, ParameterizedContext } from "koa";
import type { MiddlewareOptions } from "./middleware.js";
import { createNodeChecks } from "./node.js";

export type { MiddlewareOptions };

/** `app.use(limit({ limiter, app: (context) => context.state.team }))` */
export function limit<State = DefaultState, Context = DefaultContext>(
  options: MiddlewareOptions<ParameterizedContext<State, Context>>,
): Middleware<State, Context> {
  const check = createNodeChecks(options);
  return async (context, next) => {
    const { req: request, res: response, originalUrl } = context;
    const { headers, refusal } = await check(context, { request, response, originalUrl });
    context.set(headers);
    if (refusal === undefined) {
      await next();
      return;
    }
    context.status = refusal.status;
    context.type = "application/json";
    context.body = refusal.body;
  };
}
