/** The limiter as a middleware for Express-style servers and a plugin for Fastify: checks each request and settles it. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { ALL_HEADERS, type HeaderOptions } from "../core/refusals.js";
import type { Decision } from "./decision.js";
import { declaredLength } from "./library.js";
import type { Limiter } from "./limiter.js";
import { decisionHeaders, refusalOf } from "./response.js";

export interface MiddlewareOptions<Request> {
  limiter: Pick<Limiter, "check" | "settle">;
  /** The app that pays. Use an authenticated value, never an unchecked header. */
  app: (request: Request) => string;
  /** Headers of responses; all unless given. Retry-After is sent with every refusal. */
  headers?: HeaderOptions;
}

/** Counts the bytes of the response body. */
function countBody(response: ServerResponse): () => number {
  let bytes = 0;
  const { write, end } = response;
  const count = (chunk: unknown, encoding: unknown): void => {
    if (typeof chunk === "string") {
      bytes += Buffer.byteLength(chunk, typeof encoding === "string" ? (encoding as BufferEncoding) : "utf8");
    } else if (chunk instanceof Uint8Array) {
      bytes += chunk.byteLength;
    }
  };
  response.write = ((...args: Parameters<typeof write>) => {
    count(args[0], args[1]);
    return write.apply(response, args);
  }) as typeof write;
  response.end = ((...args: Parameters<typeof end>) => {
    count(args[0], args[1]);
    return end.apply(response, args);
  }) as typeof end;
  return () => bytes;
}

/**
 * Settles when the exchange has ended. A request body without a declared length is measured on the socket, including the
 * chunk framing: reading its data would take it from the handler.
 */
function settleWhenDone(
  limiter: Pick<Limiter, "settle">,
  decision: Decision,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const before = request.socket.bytesRead;
  const bodyBytes = countBody(response);
  response.once("close", () => {
    const declared = lengthOf(request);
    const requestBytes = declared >= 0 ? declared : Math.max(request.socket.bytesRead - before, 0);
    limiter.settle(decision, requestBytes, bodyBytes());
  });
}

function lengthOf(request: IncomingMessage): number {
  return declaredLength(request.headers["content-length"], request.headers["transfer-encoding"]);
}

/** `app.use(limit({ limiter, app: (req) => req.user.team }))` */
export function limit<Request extends IncomingMessage>({
  limiter,
  app,
  headers = ALL_HEADERS,
}: MiddlewareOptions<Request>) {
  const headersOf = decisionHeaders(headers);
  return (request: Request, response: ServerResponse, next: (error?: unknown) => void): void => {
    const decided = (decision: Decision): void => {
      for (const [name, value] of Object.entries(headersOf(decision))) response.setHeader(name, value);
      if (decision.allowed) {
        settleWhenDone(limiter, decision, request, response);
        next();
        return;
      }
      const { status, body } = refusalOf(decision);
      response.statusCode = status;
      response.setHeader("Content-Type", "application/json");
      response.end(body);
    };
    const made = limiter.check(app(request), request.method ?? "GET", lengthOf(request));
    if (made instanceof Promise) made.then(decided, next);
    else decided(made);
  };
}

/** The part of Fastify that the plugin uses. */
interface FastifyLike<Request> {
  addHook(
    name: "onRequest",
    hook: (request: Request, reply: FastifyReplyLike, done: (error?: Error) => void) => void,
  ): unknown;
}
interface FastifyReplyLike {
  raw: ServerResponse;
  header(name: string, value: string): unknown;
  code(status: number): { type(type: string): { send(body: string): unknown } };
}

/** `fastify.register(limitPlugin, { limiter, app: (request) => request.user.team })` */
export function limitPlugin<Request extends { raw: IncomingMessage }>(
  fastify: FastifyLike<Request>,
  { limiter, app, headers = ALL_HEADERS }: MiddlewareOptions<Request>,
  registered: () => void,
): void {
  const headersOf = decisionHeaders(headers);
  fastify.addHook("onRequest", (request, reply, done) => {
    const decided = (decision: Decision): void => {
      for (const [name, value] of Object.entries(headersOf(decision))) reply.header(name, value);
      if (decision.allowed) {
        settleWhenDone(limiter, decision, request.raw, reply.raw);
        done();
        return;
      }
      const { status, body } = refusalOf(decision);
      reply.code(status).type("application/json").send(body);
    };
    const made = limiter.check(app(request), request.raw.method ?? "GET", lengthOf(request.raw));
    if (made instanceof Promise) made.then(decided, done);
    else decided(made);
  });
  registered();
}

// The hook applies to the whole server, not only to routes registered inside the plugin.
Object.assign(limitPlugin, { [Symbol.for("skip-override")]: true });
