/** The control listener: routes and authorises requests, validates them, replies in JSON, and writes the audit log. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AccessOptions } from "../../config/options/service.js";
import { INVALID_ARGUMENT } from "../../core/codes.js";
import { type Clock, systemClock } from "../../shared/clock.js";
import { lingerOnClose } from "../../shared/linger.js";
import type { Log } from "../../shared/log.js";
import { InvalidArgument, StoreError } from "../../store/errors.js";
import { ok, problem, type Reply, storeProblem } from "../operations/reply.js";
import { createAudit } from "./access/audit.js";
import { addressOf, createGuard } from "./access/guard.js";
import { calls } from "./calls.js";
import { bind, type Call, type Endpoint } from "./endpoint.js";
import { openApiDocument } from "./openapi.js";
import { parseBody, parseQuery, readBody } from "./request-body.js";
import { createRouter } from "./router.js";

export interface ControlOptions {
  /** An endpoint for their OpenAPI document is added. */
  endpoints: readonly Endpoint[];
  /** Called for every request, so that a reload takes effect immediately. */
  access(): AccessOptions;
  log: Log;
  /** The version of the program. */
  version: string;
  clock?: Clock;
}

export interface Control {
  /** Not listening yet. */
  readonly server: Server;
  close(): Promise<void>;
}

const LINGER_MS = 1_000;
const DEFAULT_OPERATOR = "admin";
const LONGEST_OPERATOR = 128;

export function createControl({ log, version, access, clock = systemClock, ...options }: ControlOptions): Control {
  const endpoints = [...options.endpoints, bind(calls.openApi, () => ok(document))];
  const document = openApiDocument(endpoints, version);
  const router = createRouter(endpoints);
  const guard = createGuard(access, clock.now);
  const audit = createAudit(log, clock);

  async function handle(request: IncomingMessage): Promise<Reply> {
    const method = request.method ?? "";
    const { path, query } = splitUrl(request.url ?? "");
    const found = router.find(method, path);
    const endpoint = found !== undefined && "endpoint" in found ? found.endpoint : undefined;
    const changes = method !== "GET" && method !== "HEAD";
    const refusal = guard.refusal(request, endpoint?.role ?? "address", changes);
    if (refusal !== undefined) {
      if (endpoint !== undefined && endpoint.role !== "public") audit.rejected(attempt(request, endpoint, refusal));
      return refusal;
    }
    if (found === undefined) return problem(404, "not_found", "no_such_endpoint");
    if (!("endpoint" in found)) {
      const detail = `allowed methods: ${found.allow.join(", ")}`;
      return {
        ...problem(405, "method_not_allowed", "wrong_method", { detail }),
        headers: { Allow: found.allow.join(", ") },
      };
    }
    const call = await readCall(request, found.endpoint, found.params, query);
    const isAudited = found.endpoint.role === "admin" && found.endpoint.action !== undefined;
    if ("refusal" in call) {
      if (isAudited) audit.changed(attempt(request, found.endpoint, call.refusal));
      return call.refusal;
    }
    const reply = await perform(found.endpoint, call.value);
    if (isAudited) audit.changed(auditEntry(found.endpoint, call.value, reply));
    return reply;
  }

  async function perform(endpoint: Endpoint, call: Call): Promise<Reply> {
    try {
      return await endpoint.handle(call);
    } catch (error) {
      if (error instanceof StoreError) {
        log.warn({ kind: error.kind, endpoint: endpoint.path }, "store unavailable");
        return storeProblem(error);
      }
      if (error instanceof InvalidArgument) {
        return problem(400, INVALID_ARGUMENT, error.message, { field: error.field });
      }
      log.error({ err: error, endpoint: endpoint.path }, "control request failed");
      return problem(500, "internal_error", "unexpected");
    }
  }

  const server = createServer({ maxHeaderSize: 16_384, headersTimeout: 10_000, requestTimeout: 30_000 });
  server.on("request", (request, response) => {
    handle(request)
      .then((reply) => {
        if (!request.complete) endConnection(request, response);
        send(request, response, reply);
      })
      .catch((error: unknown) => {
        log.error({ err: error }, "control request failed");
        request.socket.destroy();
      });
  });

  return {
    server,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
        setTimeout(() => server.closeAllConnections(), 1_000).unref();
      }),
  };
}

async function readCall(
  request: IncomingMessage,
  endpoint: Endpoint,
  params: Record<string, string>,
  query: URLSearchParams,
): Promise<{ value: Call } | { refusal: Reply }> {
  const asked = parseQuery(query, endpoint.query);
  if ("refusal" in asked) return asked;
  const sent = await readBody(request, endpoint);
  if ("refusal" in sent) return sent;
  const body = endpoint.request === undefined ? { value: undefined } : parseBody(sent.value.text, endpoint.request);
  if ("refusal" in body) return body;
  const operator = operatorOf(request, body.value);
  if (operator === undefined) {
    const reason = `X-Operator must be 1 to ${LONGEST_OPERATOR} characters`;
    return { refusal: problem(400, INVALID_ARGUMENT, reason, { field: "X-Operator" }) };
  }
  const address = addressOf(request);
  return { value: { params, query: asked.value, body: body.value, ...sent.value, address, operator } };
}

function operatorOf(request: IncomingMessage, body: unknown): string | undefined {
  const named = request.headers["x-operator"];
  const own: unknown = Object(body).operator;
  if (typeof own === "string" && own !== "") return own;
  if (named === undefined) return DEFAULT_OPERATOR;
  return typeof named === "string" && named !== "" && named.length <= LONGEST_OPERATOR ? named : undefined;
}

/** The audit entry of a call that was rejected before it was executed. */
function attempt(request: IncomingMessage, { action, method, path }: Endpoint, reply: Reply) {
  const named = request.headers["x-operator"];
  return {
    action: action ?? `${method} ${path}`,
    operator: typeof named === "string" ? named.slice(0, LONGEST_OPERATOR) : "",
    reason: "",
    address: addressOf(request),
    outcome: "refused" as const,
    status: reply.status,
    why: whyOf(reply),
  };
}

function auditEntry({ action = "" }: Endpoint, { body, params, operator, address }: Call, reply: Reply) {
  const { operator: _, reason, ...parameters } = Object(body) as Record<string, unknown>;
  const isDone = reply.status < 400 && reply.refused !== true;
  return {
    action,
    operator,
    address,
    status: reply.status,
    reason: typeof reason === "string" ? reason : "",
    parameters: reply.parameters ?? { ...params, ...parameters },
    outcome: isDone ? ("done" as const) : reply.status >= 500 ? ("failed" as const) : ("refused" as const),
    ...(isDone ? {} : { why: whyOf(reply) }),
    ...(reply.before === undefined ? {} : { before: reply.before }),
    ...(reply.after === undefined ? {} : { after: reply.after }),
  };
}

function whyOf({ body }: Reply): string {
  const { reason, code } = Object(body) as { reason?: unknown; code?: unknown };
  return String(code ?? reason ?? "");
}

function splitUrl(url: string): { path: string; query: URLSearchParams } {
  const at = url.indexOf("?");
  return at < 0
    ? { path: url, query: new URLSearchParams() }
    : { path: url.slice(0, at), query: new URLSearchParams(url.slice(at + 1)) };
}

/** Closes after the reply: the rest of an unread body must not be parsed as the next request. */
function endConnection(request: IncomingMessage, response: ServerResponse): void {
  response.setHeader("Connection", "close");
  lingerOnClose(request.socket, LINGER_MS);
  request.resume();
}

function send(request: IncomingMessage, response: ServerResponse, reply: Reply): void {
  if (response.headersSent || response.destroyed) return;
  const { mediaType = "application/json", body } = reply;
  const text = typeof body === "string" && reply.mediaType !== undefined ? body : `${JSON.stringify(body)}\n`;
  response.writeHead(reply.status, {
    ...reply.headers,
    "Content-Type": mediaType,
    "Content-Length": Buffer.byteLength(text),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
  });
  response.end(request.method === "HEAD" ? undefined : text);
}
