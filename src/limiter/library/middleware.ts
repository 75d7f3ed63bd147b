/** The limiter as a middleware for Express-style servers and a plugin for Fastify: checks each request and settles it. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { ANONYMOUS_USER } from "../../core/identity.js";
import { isAcceptedPath, pathOf } from "../../core/path.js";
import { isPlainPath } from "../../core/platform.js";
import { gatewayRefusal, limitedRefusal, type Refusal } from "../../core/refusals.js";
import { ALL_HEADERS, type HeaderOptions, retryAfterSeconds as secondsOf } from "../../core/response-headers.js";
import type { RequestAttributes } from "../../limit-rules/limit-rules.js";
import { decisionHeaders } from "../decision-headers.js";
import type { Decision, Limiter } from "../limiter.js";
import { declaredLength } from "./library.js";

/** Those that are undefined have their default. */
export type OwnAttributes = {
  [Name in "user" | "address" | "host" | "path"]?: RequestAttributes[Name] | undefined;
};

export interface MiddlewareOptions<Request> {
  limiter: Pick<Limiter, "check" | "settle">;
  /**
   * The app that pays. Use an authenticated value, never an unchecked header. Undefined is handled like an app that is
   * not listed: `default` pays, or the request is refused with `unknown_app`.
   */
  app: (request: Request) => string | undefined;
  /**
   * What `limits` may depend on besides the request itself: the user, and the client's address if the server is behind
   * proxies. By default the user is anonymous and the address is that of the connection.
   */
  attributes?: ((request: Request) => OwnAttributes | undefined) | undefined;
  /** Headers of responses; all unless given. Retry-After is sent with every refusal. */
  headers?: HeaderOptions | undefined;
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

/** How a framework continues after a check. */
interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  setHeader(name: string, value: string): void;
  refuse(refusal: Refusal): void;
  next(error?: Error): void;
}

/** What Express and Connect add for routers that are mounted below a path: `url` is then relative to it. */
interface MountedRequest extends IncomingMessage {
  originalUrl?: string;
  baseUrl?: string;
}

/** The whole target, and the part that a middleware before this one may have rewritten. */
function targetsOf({ originalUrl, baseUrl = "", url = "/" }: MountedRequest) {
  const routed = baseUrl + relative(url);
  const target = originalUrl === undefined ? routed : relative(originalUrl);
  return { path: target, routedPath: target === routed ? undefined : routed };
}

/** Without the host of an absolute target. */
function relative(target: string): string {
  if (target.charCodeAt(0) === 47) return target;
  const rest = /^https?:\/\/[^/?#\\@]*(?=[/?]|$)(.*)$/is.exec(target)?.[1];
  return rest === undefined || rest.startsWith("/") ? (rest ?? target) : `/${rest}`;
}

/** Frameworks read these differently, and the library cannot pass on another path. */
function isInvalidTarget({ originalUrl, url = "/" }: MountedRequest): boolean {
  const target = relative(originalUrl ?? url);
  const path = pathOf(target);
  // The target of OPTIONS for the whole server is an asterisk.
  if (isPlainPath(path) || target === "*") return target.includes("#");
  const hasDots = path.split("/").some((segment) => DOT_SEGMENT.test(segment));
  return hasDots || path.startsWith("//") || target.includes("#") || !isAcceptedPath(path, ACCEPTED);
}

const DOT_SEGMENT = /^(?:\.|%2e){1,2}$/i;
const ACCEPTED = { keepsEncodedSlashes: true, strict: false };

function attributesOf(request: MountedRequest, app: string): RequestAttributes {
  const valuesOf = (name: string) => request.headersDistinct[name] ?? [];
  return {
    app,
    user: ANONYMOUS_USER,
    method: request.method ?? "GET",
    host: request.headers.host ?? "",
    ...targetsOf(request),
    address: request.socket.remoteAddress ?? "",
    headerCount: (name) => Math.min(valuesOf(name).length, 2),
    header: (name) => valuesOf(name)[0] ?? "",
  };
}

function withDefined(defaults: RequestAttributes, own: OwnAttributes): RequestAttributes {
  return {
    ...defaults,
    user: own.user ?? defaults.user,
    address: own.address ?? defaults.address,
    host: own.host ?? defaults.host,
    path: own.path ?? defaults.path,
  };
}

function checkWith<Request>({ limiter, app, attributes, headers = ALL_HEADERS }: MiddlewareOptions<Request>) {
  const headersOf = decisionHeaders(headers);
  return (from: Request, { request, response, setHeader, refuse, next }: Exchange): void => {
    const decided = (decision: Decision): void => {
      for (const [name, value] of Object.entries(headersOf(decision))) setHeader(name, value);
      if (!decision.allowed) {
        refuse(limitedRefusal(decision));
        return;
      }
      settleWhenDone(limiter, decision, request, response);
      next();
    };
    if (isInvalidTarget(request)) {
      refuse(gatewayRefusal("invalid_path"));
      return;
    }
    const payer = app(from) ?? "";
    const own = withDefined(attributesOf(request, payer), attributes?.(from) ?? {});
    const made = limiter.check(payer, request.method ?? "GET", lengthOf(request), own);
    if (made instanceof Promise) made.then(decided, next);
    else decided(made);
  };
}

/** `app.use(limit({ limiter, app: (req) => req.user.team }))` */
export function limit<Request extends IncomingMessage>(options: MiddlewareOptions<Request>) {
  const check = checkWith(options);
  return (request: Request, response: ServerResponse, next: (error?: unknown) => void): void =>
    check(request, {
      request,
      response,
      setHeader: (name, value) => response.setHeader(name, value),
      refuse({ status, body }) {
        response.statusCode = status;
        response.setHeader("Content-Type", "application/json");
        response.end(body);
      },
      next,
    });
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
  options: MiddlewareOptions<Request>,
  registered: () => void,
): void {
  const check = checkWith(options);
  fastify.addHook("onRequest", (request, reply, next) =>
    check(request, {
      request: request.raw,
      response: reply.raw,
      setHeader: (name, value) => reply.header(name, value),
      refuse: ({ status, body }) => reply.code(status).type("application/json").send(body),
      next,
    }),
  );
  registered();
}

// The hook applies to the whole server, not only to routes registered inside the plugin.
Object.assign(limitPlugin, { [Symbol.for("skip-override")]: true });

/** The response headers of a decision: X-RateLimit-*, RateLimit and RateLimit-Policy; without Retry-After. */
export function rateLimitHeaders(decision: Decision, options: HeaderOptions = ALL_HEADERS): Record<string, string> {
  return headersWith[`${options.xRateLimit} ${options.ietf}`](decision);
}

const headersWith = {
  "true true": decisionHeaders(ALL_HEADERS),
  "true false": decisionHeaders({ xRateLimit: true, ietf: false }),
  "false true": decisionHeaders({ xRateLimit: false, ietf: true }),
  "false false": decisionHeaders({ xRateLimit: false, ietf: false }),
};

/** The value of Retry-After in whole seconds; 0 if a retry cannot succeed or is not needed. */
export function retryAfterSeconds(decision: Decision): number {
  return secondsOf(decision.retryAfterMs);
}
