/** Plain HTTP requests of the Envoy listener, over HTTP/1.1 and HTTP/2: routing, access, and a body of limited size. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Readable } from "node:stream";
import { OVERLOADED } from "../core/codes.js";
import { OVERLOAD_RETRY_SECONDS } from "../core/refusals.js";
import type { Log } from "../shared/log.js";
import type { AccessDenial } from "./access.js";
import { ChunkList } from "./buffers.js";
import type { Expiry } from "./expiry.js";
import type { Peer } from "./peers.js";

export interface HttpReply {
  status: number;
  headers?: Record<string, string>;
  body: string;
}

export interface HttpRoute {
  method: "GET" | "POST";
  path: string;
  /** No token needed, as for health checks. */
  isPublic?: boolean;
  handle(body: Buffer): HttpReply | Promise<HttpReply>;
}

/** The connection of a request. */
export type HttpPeer = Pick<Peer, "check" | "buffers" | "isAuthorized" | "inTurn">;

export interface HttpRoutesOptions {
  routes: readonly HttpRoute[];
  /** Read on every request. */
  maxBodyBytes(): number;
  /** For bodies of public routes. */
  maxPublicBytes: number;
  /** Whether to refuse a request because of overload. Public routes are always served. */
  sheds(): boolean;
  /** Ends HTTP/2 requests that are not complete in time. */
  expiry: Expiry;
  log: Log;
}

/** A request of either protocol version. */
interface HttpRequest {
  method: string | undefined;
  url: string | undefined;
  headers: IncomingHttpHeaders;
  body: Readable;
  peer: HttpPeer;
  send(reply: HttpReply): void;
}

/** What to do with a request: call a route, or reply. */
type Found = { route: HttpRoute } | HttpReply;

export function createHttpRoutes(options: HttpRoutesOptions) {
  const { routes, maxBodyBytes, maxPublicBytes, sheds, expiry, log } = options;
  const maxBytesOf = ({ isPublic }: HttpRoute) => (isPublic === true ? maxPublicBytes : maxBodyBytes());

  /**
   * The route to call and who calls it, or the reply if it must not be called. `isStranger`: the caller sent no credentials, or
   * unknown ones.
   */
  function callOf(request: HttpRequest): { found: Found; isStranger: boolean } {
    const { method, url = "", headers, peer } = request;
    const path = url.split("?", 1)[0];
    const candidates = routes.filter((route) => route.path === path);
    const route = candidates.find((candidate) => candidate.method === method);
    if (route?.isPublic === true) {
      return { found: accepted(route, headers), isStranger: !peer.isAuthorized };
    }
    const denial = peer.check(headers.authorization);
    if (denial !== undefined) return { found: denied(denial), isStranger: true };
    return { found: foundBy(headers, route, candidates), isStranger: false };
  }

  function accepted(route: HttpRoute, headers: IncomingHttpHeaders): Found {
    const maxBytes = maxBytesOf(route);
    return Number(headers["content-length"] ?? 0) > maxBytes ? tooLarge(maxBytes) : { route };
  }

  function foundBy(headers: IncomingHttpHeaders, route: HttpRoute | undefined, candidates: HttpRoute[]): Found {
    // Only browsers send these headers.
    if (headers.origin !== undefined || headers["sec-fetch-site"] !== undefined) {
      return problem(403, "forbidden", "cross_site", "web pages must not call this listener");
    }
    if (route !== undefined) {
      return sheds() ? overloaded : accepted(route, headers);
    }
    if (candidates.length === 0) return problem(404, "not_found", "no_such_path", "unknown path on this listener");
    const allowed = candidates.map((candidate) => candidate.method).join(", ");
    const reply = problem(405, "method_not_allowed", "method", `use ${allowed}`);
    return { ...reply, headers: { ...JSON_TYPE, Allow: allowed } };
  }

  async function call(route: HttpRoute, body: Buffer, send: HttpRequest["send"]): Promise<void> {
    try {
      send(await route.handle(body));
    } catch (error) {
      log.error({ err: error, path: route.path }, "an HTTP request of an Envoy failed");
      send(problem(500, "internal_error", "internal_error", "internal error"));
    }
  }

  /** A request whose client disconnects within the body gets no reply. */
  function serve(request: HttpRequest): void {
    const { found, isStranger } = callOf(request);
    if (isStranger) request.peer.inTurn(request.body, () => proceed(request, found));
    else proceed(request, found);
  }

  function proceed({ body, send, peer }: HttpRequest, found: Found): void {
    if ("status" in found) {
      send(found);
      return;
    }
    const maxBytes = maxBytesOf(found.route);
    const chunks = new ChunkList(peer.buffers);
    let isRejected = false;
    function reject(reply: HttpReply): void {
      isRejected = true;
      chunks.clear();
      send(reply);
    }
    body.on("data", (chunk: Buffer) => {
      if (isRejected) return;
      if (chunks.bytes + chunk.length > maxBytes) reject(tooLarge(maxBytes));
      else if (!chunks.add(chunk)) reject(buffersFull);
    });
    body.on("end", () => {
      if (!isRejected) void call(found.route, chunks.join(), send);
    });
    body.on("close", () => chunks.clear());
  }

  return {
    serveHttp1(request: IncomingMessage, response: ServerResponse, peer: HttpPeer): void {
      const { method, url, headers } = request;
      const send = (reply: HttpReply) => sendHttp1(request, response, reply);
      serve({ method, url, headers, body: request, peer, send });
    },
    serveHttp2(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, peer: HttpPeer): void {
      const abandon = () => stream.close(constants.NGHTTP2_CANCEL);
      expiry.begin(abandon);
      stream.on("close", () => expiry.end(abandon));
      const { ":method": method, ":path": url } = headers as Record<string, string | undefined>;
      serve({ method, url, headers, body: stream, peer, send: (reply) => sendHttp2(stream, reply) });
    },
  };
}

export const JSON_TYPE = { "content-type": "application/json" };

export function problem(status: number, error: string, reason: string, detail: string): HttpReply {
  return { status, headers: JSON_TYPE, body: `${JSON.stringify({ error, reason, detail })}\n` };
}

const buffersFull = problem(
  503,
  "service_unavailable",
  "buffers_full",
  "too many bytes of incomplete bodies; try again",
);
const overloaded: HttpReply = {
  ...problem(503, "service_unavailable", OVERLOADED, "this process refuses new work; try again"),
  headers: { ...JSON_TYPE, "retry-after": String(OVERLOAD_RETRY_SECONDS) },
};
const tooLarge = (maxBytes: number) => problem(413, "content_too_large", "body", `at most ${maxBytes} bytes`);

function denied({ kind, detail }: AccessDenial): HttpReply {
  if (kind === "forbidden") return problem(403, "forbidden", "address_not_allowed", detail);
  if (kind === "locked") return problem(429, "too_many_requests", "failed_logins", detail);
  const reply = problem(401, "unauthorized", "plane_token", detail);
  return { ...reply, headers: { ...reply.headers, "WWW-Authenticate": "Bearer" } };
}

function sendHttp1(request: IncomingMessage, response: ServerResponse, { status, headers, body }: HttpReply): void {
  if (response.headersSent || response.destroyed) return;
  // Reads and discards the rest of a rejected body: the client might not read the reply before it has sent all of it.
  request.resume();
  if (!request.complete) response.setHeader("Connection", "close");
  response.writeHead(status, { ...headers, "content-length": Buffer.byteLength(body) }).end(body);
}

function sendHttp2(stream: ServerHttp2Stream, { status, headers, body }: HttpReply): void {
  if (stream.headersSent || stream.destroyed || stream.closed) return;
  stream.respond({ ":status": status, ...headers, "content-length": Buffer.byteLength(body) });
  stream.end(body);
  if (!stream.readableEnded) stream.close();
}
