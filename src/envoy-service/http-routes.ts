/** The plain HTTP side of the Envoy listener: a few paths, a bounded body in, an answer out; over HTTP/1.1 and HTTP/2. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Log } from "../shared/log.js";
import type { AccessRefusal, Door } from "./access.js";
import { headerBlock } from "./grpc/http2/hpack.js";
import type { Http2Stream, StreamHandler } from "./grpc/http2/stream.js";

export interface HttpAnswer {
  status: number;
  headers?: Record<string, string>;
  body: string;
}

export interface HttpRoute {
  method: "GET" | "POST";
  path: string;
  /** Anybody may call it, as health checks do. */
  isPublic?: boolean;
  handle(body: Buffer): HttpAnswer | Promise<HttpAnswer>;
}

export interface HttpRoutesOptions {
  routes: readonly HttpRoute[];
  mostBodyBytes(): number;
  log: Log;
}

type Head = Pick<Http2Stream["head"], "method" | "path" | "authorization" | "length" | "fromPage">;

export interface HttpRoutes {
  takeHttp1(request: IncomingMessage, response: ServerResponse, door: Door): void;
  takeHttp2(stream: Http2Stream, door: Door): StreamHandler;
}

export function createHttpRoutes({ routes, mostBodyBytes, log }: HttpRoutesOptions): HttpRoutes {
  /** The route that may be called like this, or why it may not. */
  function judge(head: Head, door: Door): HttpRoute | HttpAnswer {
    const here = routes.filter(({ path }) => path === head.path);
    const route = here.find(({ method }) => method === head.method);
    if (route?.isPublic !== true) {
      const refusal = door.refusal(head.authorization);
      if (refusal !== undefined) return refused(refusal);
      if (head.fromPage) return problem(403, "forbidden", "cross_site", "a page may not call this");
    }
    if (route !== undefined) {
      if (head.length > mostBodyBytes()) return tooLarge(mostBodyBytes());
      return route;
    }
    if (here.length === 0) return problem(404, "not_found", "no_such_path", "there is no such path on this listener");
    const allowed = here.map(({ method }) => method).join(", ");
    return {
      ...problem(405, "method_not_allowed", "method", `${allowed} is answered here`),
      headers: { ...JSON_TYPE, Allow: allowed },
    };
  }

  function answer(route: HttpRoute, body: Buffer, send: (answer: HttpAnswer) => void): void {
    const failed = (error: unknown) => {
      log.error({ err: error, path: route.path }, "a call failed");
      send(problem(500, "internal_error", "internal_error", "an error within the service"));
    };
    try {
      const made = route.handle(body);
      if (made instanceof Promise) made.then(send, failed);
      else send(made);
    } catch (error) {
      failed(error);
    }
  }

  /** Whoever goes away before the end of its body is not answered. */
  function bodyOf(route: HttpRoute, send: (answer: HttpAnswer) => void): StreamHandler {
    const most = mostBodyBytes();
    const chunks: Buffer[] = [];
    let size = 0;
    return {
      data(chunk) {
        if (size > most) return;
        size += chunk.length;
        if (size > most) send(tooLarge(most));
        else chunks.push(chunk);
      },
      end() {
        if (size <= most) answer(route, chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks), send);
      },
      lost() {},
    };
  }

  return {
    takeHttp1(request, response, door) {
      const send = (made: HttpAnswer) => sendHttp1(request, response, made);
      const judged = judge(headOf(request), door);
      if ("status" in judged) return send(judged);
      const body = bodyOf(judged, send);
      request.on("data", (chunk: Buffer) => body.data(chunk));
      request.on("end", () => body.end());
    },
    takeHttp2(stream, door) {
      const send = (made: HttpAnswer) => sendHttp2(stream, made);
      const judged = judge({ ...stream.head, path: pathOf(stream.head.path) }, door);
      if (!("status" in judged)) return bodyOf(judged, send);
      send(judged);
      return { data() {}, end() {}, lost() {} };
    },
  };
}

function headOf({ method = "", url = "", headers }: IncomingMessage): Head {
  return {
    ...{ method, path: pathOf(url), authorization: headers.authorization },
    length: Number(headers["content-length"] ?? 0),
    fromPage: headers.origin !== undefined || headers["sec-fetch-site"] !== undefined,
  };
}

const pathOf = (url: string) => url.split("?", 1)[0]!;

export const JSON_TYPE = { "content-type": "application/json" };

export function problem(status: number, error: string, reason: string, detail: string): HttpAnswer {
  return { status, headers: JSON_TYPE, body: `${JSON.stringify({ error, reason, detail })}\n` };
}

const tooLarge = (most: number) => problem(413, "content_too_large", "body", `at most ${most} bytes`);

function refused({ kind, text }: AccessRefusal): HttpAnswer {
  if (kind === "forbidden") return problem(403, "forbidden", "address_not_allowed", text);
  if (kind === "locked") return problem(429, "too_many_requests", "failed_logins", text);
  const answer = problem(401, "unauthorized", "plane_token", text);
  return { ...answer, headers: { ...answer.headers, "WWW-Authenticate": "Bearer" } };
}

function sendHttp1(request: IncomingMessage, response: ServerResponse, { status, headers, body }: HttpAnswer): void {
  if (response.headersSent || response.destroyed) return;
  // What is still to come of a body that nobody wants is read and dropped, or the caller might not see the answer.
  request.resume();
  const last = request.complete ? {} : { Connection: "close" };
  response.writeHead(status, { ...headers, "content-length": Buffer.byteLength(body), ...last }).end(body);
}

function sendHttp2(stream: Http2Stream, { status, headers = {}, body }: HttpAnswer): void {
  const head: Record<string, string> = { ":status": String(status) };
  for (const [name, value] of Object.entries(headers)) head[name.toLowerCase()] = value;
  const bytes = Buffer.from(body);
  head["content-length"] = String(bytes.length);
  stream.respond(headerBlock(head), bytes);
}
