/** The control listener: sync for data planes and health. Whoever calls it must come from an allowed address. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { INVALID_ARGUMENT, STORE_UNAVAILABLE } from "../core/codes.js";
import { lingerOnClose } from "../planes/node/connections.js";
import { StoreError } from "../store/errors.js";
import { RefusedArgument } from "../store/refused-argument.js";
import { createAddressCheck, createHostCheck, createTokenCheck } from "./guard.js";
import type { SyncHandler } from "./sync.js";
import { BadField, formatSync, type MessageFormat, parseSync } from "./sync-message.js";

export interface ControlOptions {
  sync: SyncHandler;
  /** Whether the store answers. */
  isStoreReady(): Promise<boolean>;
  /** Empty: the endpoints of data planes are off. */
  planeToken: string;
  /** Addresses and networks that may call. */
  allow: readonly string[];
  /** Names besides localhost and plain addresses by which it may be called. */
  hosts: readonly string[];
  log: ControlLog;
}

/** What pino offers. */
export interface ControlLog {
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
}

export interface Control {
  /** Not listening yet. */
  readonly server: Server;
  close(): Promise<void>;
}

/** Five hundred apps with long names and large numbers fit in. */
const MOST_BODY_BYTES = 256 * 1024;
const LINGER_MS = 1_000;

/** An answer that ends the handling of a request wherever it is found out. */
class Answered {
  constructor(
    readonly status: number,
    readonly body: { error: string; reason: string; field?: string; detail?: string },
    readonly headers: Record<string, string> = {},
  ) {}
}

function forbidden(reason: string, detail: string): Answered {
  return new Answered(403, { error: "forbidden", reason, detail });
}

type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

interface Endpoint {
  method: string;
  /** Health is asked by probes, whose addresses nobody knows beforehand; it tells no secret. */
  anyAddress?: boolean;
  handle: Handler;
}

export function createControl(options: ControlOptions): Control {
  const { sync, log, planeToken } = options;
  const isAllowed = createAddressCheck(options.allow);
  const isKnownHost = createHostCheck(options.hosts);
  const hasPlaneToken = createTokenCheck(planeToken);

  const endpoints = new Map<string, Endpoint>([
    ["/v1/sync", { method: "POST", handle: handleSync }],
    ["/health/live", { method: "GET", anyAddress: true, handle: handleLive }],
    ["/health/ready", { method: "GET", anyAddress: true, handle: handleReady }],
  ]);

  async function handleSync(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (planeToken === "") {
      throw forbidden("sync_disabled", "control.plane_token is not configured");
    }
    if (!hasPlaneToken(request)) {
      const detail = "the bearer token of the data planes is needed";
      const body = { error: "unauthorized", reason: "wrong_token", detail };
      throw new Answered(401, body, { "WWW-Authenticate": "Bearer" });
    }
    const format = formatOf(request);
    const answer = await sync(parseSync(format, await readBody(request)));
    send(
      response,
      200,
      format === "json" ? "application/json" : "text/plain; charset=utf-8",
      formatSync(format, answer),
    );
  }

  async function handleLive(_request: IncomingMessage, response: ServerResponse): Promise<void> {
    sendJson(response, 200, { status: "healthy", timestamp: timestamp() });
  }

  async function handleReady(_request: IncomingMessage, response: ServerResponse): Promise<void> {
    const ready = await options.isStoreReady();
    // The names are those of the seeds, whatever the store is.
    const checks = { redis: ready ? "ok" : "error", shared_memory: "ok", config_loaded: true };
    sendJson(response, ready ? 200 : 503, { ready, checks, timestamp: timestamp() });
  }

  async function route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? "").split("?", 1)[0] ?? "";
    const endpoint = endpoints.get(path);
    if (endpoint?.anyAddress !== true && !isAllowed(request)) {
      throw forbidden("address_not_allowed", "control.allow does not list this address");
    }
    if (!isKnownHost(request)) {
      throw forbidden("unknown_host", "control.hosts does not list this Host");
    }
    if (endpoint === undefined) throw new Answered(404, { error: "not_found", reason: "no_such_endpoint" });
    if (request.method !== endpoint.method) {
      const body = { error: "method_not_allowed", reason: "wrong_method" };
      throw new Answered(405, body, { Allow: endpoint.method });
    }
    await endpoint.handle(request, response);
  }

  const server = createServer({ maxHeaderSize: 16_384, headersTimeout: 10_000, requestTimeout: 30_000 });
  server.on("request", (request, response) => {
    route(request, response).catch((error: unknown) => {
      const { status, headers, body } = answerFor(error, log);
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      if (!request.complete) endConnection(request, response);
      sendJson(response, status, body);
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

function answerFor(error: unknown, log: ControlLog): Answered {
  if (error instanceof Answered) return error;
  if (error instanceof BadField || error instanceof RefusedArgument) {
    return new Answered(400, { error: INVALID_ARGUMENT, reason: error.message, field: error.field });
  }
  if (error instanceof StoreError) {
    log.warn({ kind: error.kind }, "sync failed: the store is not available");
    return new Answered(503, { error: STORE_UNAVAILABLE, reason: error.kind }, { "Retry-After": "1" });
  }
  log.error({ err: error }, "a request of the control listener failed");
  return new Answered(500, { error: "internal_error", reason: "unexpected" });
}

/** A body that nobody reads must not be taken for the next request; reading on for a while lets the answer arrive. */
function endConnection(request: IncomingMessage, response: ServerResponse): void {
  response.setHeader("Connection", "close");
  lingerOnClose(request.socket, LINGER_MS);
  request.resume();
}

function formatOf({ headers }: IncomingMessage): MessageFormat {
  const type = (headers["content-type"] ?? "application/json").split(";", 1)[0]?.trim().toLowerCase();
  if (type === "application/json") return "json";
  if (type === "text/plain") return "text";
  const detail = "application/json or text/plain is read";
  throw new Answered(415, { error: "unsupported_media_type", reason: "content_type", detail });
}

function readBody(request: IncomingMessage): Promise<string> {
  const tooLarge = { error: "content_too_large", reason: "body", detail: `at most ${MOST_BODY_BYTES} bytes` };
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size <= MOST_BODY_BYTES) chunks.push(chunk);
      else reject(new Answered(413, tooLarge));
    });
    request.on("end", () => resolve(Buffer.concat(chunks).toString("utf8")));
    // Nobody is left to answer to.
    request.on("close", () => reject(new Answered(400, { error: "bad_request", reason: "aborted" })));
  });
}

const timestamp = () => new Date().toISOString();

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  send(response, status, "application/json", `${JSON.stringify(body)}\n`);
}

function send(response: ServerResponse, status: number, type: string, body: string): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, {
    "Content-Type": type,
    "Content-Length": Buffer.byteLength(body),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
  });
  response.end(body);
}
