/** Requests and responses of node:http, on which Express, Fastify and Koa are built. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type CheckedRequest, declaredLength } from "../checked-request.js";
import { createChecks, type MiddlewareOptions, type ReceivedRequest, type Verdict } from "./middleware.js";
import { isInvalidTarget, relative } from "./targets.js";

/** What Express and Connect add for routers that are mounted below a path: `url` is then relative to it. */
interface MountedRequest extends IncomingMessage {
  originalUrl?: string;
  baseUrl?: string;
}

/** Reads the headers only if limits depend on them. */
class NodeRequest implements ReceivedRequest {
  readonly method: string;
  /** The whole target. */
  path: string;
  /** The part of it that a middleware before this one may have rewritten. */
  readonly routedPath: string | undefined;
  readonly isInvalid: boolean;
  readonly contentLength: number;
  host: string | undefined;
  ip: string | undefined;
  app?: string | undefined;
  user?: string | undefined;
  readonly #message: IncomingMessage;

  constructor(message: MountedRequest, originalUrl = message.originalUrl) {
    const { baseUrl = "", url = "/", method = "GET" } = message;
    const routed = baseUrl + relative(url);
    const target = originalUrl === undefined ? routed : relative(originalUrl);
    this.method = method;
    this.path = target;
    this.routedPath = target === routed ? undefined : routed;
    this.isInvalid = isInvalidTarget(relative(originalUrl ?? url));
    this.contentLength = lengthOf(message);
    this.host = message.headers.host;
    this.ip = message.socket.remoteAddress;
    this.#message = message;
  }

  get headers(): CheckedRequest["headers"] {
    return this.#message.headersDistinct;
  }
}

function lengthOf({ headers }: IncomingMessage): number {
  return declaredLength(headers["content-length"], headers["transfer-encoding"]);
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
function settleWhenDone(settle: (requestBytes: number, responseBytes: number) => void, exchange: NodeExchange): void {
  const { request, response } = exchange;
  const before = request.socket.bytesRead;
  const bodyBytes = countBody(response);
  response.once("close", () => {
    const declared = lengthOf(request);
    settle(declared >= 0 ? declared : Math.max(request.socket.bytesRead - before, 0), bodyBytes());
  });
}

export interface NodeExchange {
  request: IncomingMessage;
  response: ServerResponse;
  /** The target as received, if the framework does not have it in the request. */
  originalUrl?: string | undefined;
}

/** Checks requests of node:http, and settles those that are admitted. */
export function createNodeChecks<Request>(options: MiddlewareOptions<Request>) {
  const { limiter } = options;
  const check = createChecks(options);
  const settled = (verdict: Verdict, exchange: NodeExchange): Verdict => {
    const { admitted } = verdict;
    // Without an app, requests have no price.
    if (admitted !== undefined && admitted.app !== "") {
      settleWhenDone((...bytes) => limiter.settle(admitted, ...bytes), exchange);
    }
    return verdict;
  };
  return (from: Request, exchange: NodeExchange): Verdict | Promise<Verdict> => {
    const made = check(from, new NodeRequest(exchange.request, exchange.originalUrl));
    return made instanceof Promise ? made.then((verdict) => settled(verdict, exchange)) : settled(made, exchange);
  };
}

type Next = (error?: unknown) => void;

/** `(request, response, next)`, as in Express and Connect. */
export function createHandler<Request extends IncomingMessage>(options: MiddlewareOptions<Request>) {
  const check = createNodeChecks(options);
  return (request: Request, response: ServerResponse, next: Next): void => {
    const handle = ({ headers, refusal }: Verdict): void => {
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      if (refusal === undefined) {
        next();
        return;
      }
      response.statusCode = refusal.status;
      response.setHeader("Content-Type", "application/json");
      response.end(refusal.body);
    };
    const made = check(request, { request, response });
    if (made instanceof Promise) made.then(handle, next);
    else handle(made);
  };
}
