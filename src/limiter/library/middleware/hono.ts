/** Middleware for Hono. */
import type { Context, Env, MiddlewareHandler } from "hono";
import { contentLengthOf } from "../checked-request.js";
import { createChecks, type MiddlewareOptions, type ReceivedRequest } from "./middleware.js";
import { isInvalidTarget, relative } from "./targets.js";

export type { MiddlewareOptions };

const field = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;

/** The address of the connection, with @hono/node-server. */
function peerOf(env: unknown): string | undefined {
  const address = field(field(field(env, "incoming"), "socket"), "remoteAddress");
  return typeof address === "string" ? address : undefined;
}

function receivedRequest(method: string, url: string, headers: Headers, env: unknown): ReceivedRequest {
  const path = relative(url);
  const host = headers.get("host") ?? undefined;
  return { method, path, headers, host, ip: peerOf(env), isInvalid: isInvalidTarget(path) };
}

/** Passes a body on and counts its bytes until it ends or fails, or the client leaves. */
function counted(body: ReadableStream<Uint8Array>, ended: (bytes: number) => void): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let bytes = 0;
  let isOver = false;
  /** A client that leaves while a read is waiting ends the body twice. */
  const end = (): void => {
    if (!isOver) ended(bytes);
    isOver = true;
  };
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) {
          end();
          controller.close();
        } else {
          bytes += value.byteLength;
          controller.enqueue(value);
        }
      } catch (error) {
        end();
        throw error;
      }
    },
    async cancel(reason) {
      end();
      await reader.cancel(reason);
    },
  });
}

/**
 * `app.use(limit<AppEnv>({ limiter, app: (context) => context.get("team") }))`. A request body of unknown length counts as empty. On other runtimes
 * than Node.js, limits by `ip` need the extractor `ip`.
 */
export function limit<E extends Env>(options: MiddlewareOptions<Context<E>>): MiddlewareHandler<E> {
  const { limiter } = options;
  const check = createChecks(options);
  return async (context, next) => {
    const { method, url, headers: sent } = context.req.raw;
    const received = receivedRequest(method, url, sent, context.env);
    const { headers, refusal, admitted } = await check(context, received);
    if (refusal !== undefined) {
      const { status, body } = refusal;
      return new Response(body, { status, headers: { ...headers, "Content-Type": "application/json" } });
    }
    for (const [name, value] of Object.entries(headers)) context.header(name, value);
    await next();
    // Without an app, requests have no price.
    if (admitted === undefined || admitted.app === "") return;
    const requestBytes = Math.max(contentLengthOf(received), 0);
    const { body } = context.res;
    // Hono drops the body of a response to HEAD without reading it.
    if (body === null || method === "HEAD") limiter.settle(admitted, requestBytes, 0);
    else
      context.res = new Response(
        counted(body, (bytes) => limiter.settle(admitted, requestBytes, bytes)),
        context.res,
      );
  };
}
