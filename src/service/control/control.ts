/** The control listener: routes and authorises requests, validates them, replies in JSON, and writes the audit log. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { addAbortSignal, pipeline, Readable } from "node:stream";
import * as z from "zod";
import { configDifferences } from "../../config/live/differences.js";
import type { ChangeHandler } from "../../config/live/live.js";
import type { AccessOptions } from "../../config/options/service.js";
import { configVersion } from "../../config/version.js";
import { INVALID_ARGUMENT, OVERLOADED, STORE_UNAVAILABLE } from "../../core/codes.js";
import { OVERLOAD_RETRY_SECONDS } from "../../core/refusals.js";
import { createPeerTurns } from "../../shared/access/peer-turns.js";
import { networkOf } from "../../shared/addresses.js";
import { type Clock, systemClock } from "../../shared/clock.js";
import { markBusy } from "../../shared/connection-limits.js";
import { inTurn } from "../../shared/in-turn.js";
import { lingerOnClose } from "../../shared/linger.js";
import type { Log } from "../../shared/log.js";
import { InvalidArgument, StoreError, type StoreErrorKind } from "../../store/errors.js";
import * as contract from "../operations/contract/contract.js";
import {
  admin,
  type Call,
  type Endpoint,
  endpoint,
  ok,
  problem,
  Rejected,
  type Reply,
} from "../operations/endpoint.js";
import { auditEntry, createAudit } from "./access/audit.js";
import { addressOf, createGuard, type GuardOptions } from "./access/guard.js";
import { openApiDocument } from "./openapi.js";
import { bodyBytes, isPlainText, readCall } from "./request.js";
import { createRouter } from "./router.js";

export interface ControlOptions {
  /** An endpoint for their OpenAPI document is added. */
  endpoints: readonly Endpoint[];
  /** Called for every request, so that a reload takes effect immediately. Returns the same object until then. */
  access(): AccessOptions;
  /** The reply to a data plane that has exceeded its budget. Default: none. Called for each of its messages. */
  planeRefusal?(plane: string, bytes: number): Reply | undefined;
  sessionToken?: GuardOptions["sessionToken"];
  isOpen?: GuardOptions["isOpen"];
  /** Calls the handler after each change of the configuration, for the list of changes. */
  onConfig?(handler: ChangeHandler): unknown;
  log: Log;
  /** Whether to refuse a call because of overload. Default: never. */
  sheds?(): boolean;
  /** The version of the program. */
  version: string;
  clock?: Clock;
}

const LINGER_MS = 1_000;
/** A peer without credentials must have read a reply by then. */
const MOST_READING_MS = 10_000;
/** Listed for one change of the configuration. */
const MOST_CHANGES = 200;

const storeDetails: Record<StoreErrorKind, string> = {
  timeout: "the store did not answer in time; the operation may or may not have been executed",
  unavailable: "the store cannot be reached",
  overloaded: "too many store calls are in flight",
  out_of_memory: "the store is out of memory and rejects writes",
  denied: "the store rejects this service: check user name and password",
  script: "a store script failed: this is a bug",
  closed: "the service is stopping",
};

const overloaded: Reply = {
  ...problem(503, "service_unavailable", OVERLOADED, { detail: "this process refuses new work; try again" }),
  headers: { "Retry-After": String(OVERLOAD_RETRY_SECONDS) },
};

export function createControl({ log, version, access, clock = systemClock, ...options }: ControlOptions) {
  const openApi: Endpoint = endpoint("GET", "/openapi.json", "address", {
    summary: "This document.",
    reply: z.record(z.string(), z.unknown()),
    // Written once: everybody may ask for it, and it is large.
    handle: () => ok(document as never, { mediaType: "application/json" }),
  });
  const recentChanges = admin("GET", "audit", {
    summary: "The last changes through this service: who, what, why and with which result.",
    reply: contract.auditReply,
    handle: () => ok({ entries: audit.recent(), timestamp: new Date().toISOString() }),
  });
  const endpoints = [...options.endpoints, openApi, recentChanges];
  const document: string = `${JSON.stringify(openApiDocument(endpoints, version))}\n`;
  const find = createRouter(endpoints);
  const guard = createGuard({ access, now: clock.now, sessionToken: options.sessionToken, isOpen: options.isOpen });
  const turns = createPeerTurns(clock);
  const audit = createAudit(log.unlimited ?? log, clock);
  options.onConfig?.((config, before) => {
    audit.followed(configVersion(config), configDifferences(before, config, MOST_CHANGES));
  });

  /** Waits for the turn of a peer without credentials. False: too many of its requests wait, or it is gone. */
  async function hasTurn(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const { socket } = request;
    let ended = () => {};
    response.once("close", () => ended());
    const turn = await turns.next(networkOf(addressOf(request)), (stopWaiting) => {
      ended = stopWaiting;
    });
    if (turn === undefined) return false;
    const before = socket.bytesWritten;
    const stop = clock.after(MOST_READING_MS, () => socket.destroy());
    ended = () => {
      stop();
      turn.end(socket.bytesWritten - before);
    };
    if (response.closed) ended();
    return !response.closed;
  }

  /** Undefined: no reply. */
  async function handle(request: IncomingMessage, response: ServerResponse): Promise<Reply | undefined> {
    const method = request.method ?? "";
    const [path = "", search = ""] = (request.url ?? "").split(/\?(.*)/s);
    const { endpoint, params = {}, allow } = find(method, path) ?? {};
    const changes = method !== "GET" && method !== "HEAD";
    const admit = () => guard.admit(request, endpoint?.role ?? "address", changes);
    const { refusal, token, name, mayChange, hasCredentials } = admit();
    if (!hasCredentials && !(await hasTurn(request, response))) return undefined;
    if (refusal !== undefined) {
      if (endpoint !== undefined && endpoint.role !== "public") {
        audit.rejected(auditEntry({ request, endpoint, reply: refusal, name }));
      }
      return refusal;
    }
    if (allow === undefined) return problem(404, "not_found", "no_such_endpoint");
    if (endpoint === undefined) {
      const methods = allow.join(", ");
      const reply = problem(405, "method_not_allowed", "wrong_method", { detail: `allowed methods: ${methods}` });
      return { ...reply, headers: { Allow: methods } };
    }
    if (endpoint.role === "plane") {
      const over = options.planeRefusal?.(name, bodyBytes(request, endpoint));
      if (over !== undefined) return over;
    }
    if (endpoint.isShed === true && options.sheds?.() === true) return overloaded;
    let call: Call | undefined;
    let reply: Reply;
    try {
      call = await readCall(request, endpoint, params, {
        search,
        access: {
          token,
          name,
          mayChange,
          isCurrent: () => admit().refusal === undefined,
          mayActFor: (node) => guard.mayActFor(name, node),
        },
      });
      reply = await endpoint.handle(call);
    } catch (error) {
      reply = failure(error, endpoint);
    }
    const audited = { request, endpoint, reply, name, call };
    const isOperators = endpoint.role === "admin" || endpoint.role === "viewer";
    if (isOperators && endpoint.action !== undefined)
      audit.changed(auditEntry(audited), endpoint.role === "viewer" && !mayChange);
    // A data plane acted for a node that is not its own.
    if (endpoint.role === "plane" && reply.status === 403) audit.rejected(auditEntry(audited));
    if (endpoint.text === undefined || reply.status !== 200 || !isPlainText(request)) return reply;
    const lines = endpoint.text.format(reply.body);
    return { ...reply, body: `${lines.join("\n")}\n`, mediaType: "text/plain; charset=utf-8" };
  }

  function failure(error: unknown, { path }: Endpoint): Reply {
    if (error instanceof Rejected) return error.reply;
    if (error instanceof InvalidArgument) {
      return problem(400, INVALID_ARGUMENT, error.message, { field: error.field });
    }
    if (error instanceof StoreError) {
      const { kind } = error;
      log.warn({ kind, endpoint: path }, "store unavailable");
      const reply = problem(503, STORE_UNAVAILABLE, kind, { detail: storeDetails[kind] });
      return { ...reply, headers: { "Retry-After": "1" } };
    }
    log.error({ err: error, endpoint: path }, "control request failed");
    return problem(500, "internal_error", "unexpected");
  }

  const server = createServer({
    maxHeaderSize: 16_384,
    headersTimeout: 5_000,
    requestTimeout: 30_000,
    connectionsCheckingInterval: 1_000,
    // Finds peers that are gone, for instance of live feeds.
    keepAlive: true,
    keepAliveInitialDelay: 30_000,
  });
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    markBusy(request, response);
    handle(request, response)
      .then((reply) => {
        if (reply === undefined) {
          request.socket.destroy();
          return;
        }
        if (!request.complete) endConnection(request, response);
        send(request, response, reply, (error) => {
          if (error) log.debug({ err: error }, "a reply was not sent completely");
        });
      })
      .catch((error: unknown) => {
        log.error({ err: error }, "control request failed");
        request.socket.destroy();
      });
  };
  server.on("request", inTurn(serve));

  return {
    /** Not listening yet. */
    server,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
        setTimeout(() => server.closeAllConnections(), 1_000).unref();
      }),
  };
}

/** Closes after the reply: the rest of an unread body must not be parsed as the next request. */
function endConnection(request: IncomingMessage, response: ServerResponse): void {
  response.setHeader("Connection", "close");
  lingerOnClose(request.socket, LINGER_MS);
  request.resume();
}

/** @param sent called when a reply in parts has ended, with an error if it is incomplete */
function send(
  request: IncomingMessage,
  response: ServerResponse,
  reply: Reply,
  sent: (error: Error | null | undefined) => void,
): void {
  if (response.headersSent || response.destroyed) return;
  const { mediaType = "application/json", body } = reply;
  const headers = {
    "Cache-Control": "no-store",
    ...reply.headers,
    "Content-Type": mediaType,
    "X-Content-Type-Options": "nosniff",
  };
  const isHead = request.method === "HEAD";
  if (isParts(body)) {
    response.writeHead(reply.status, headers);
    if (isHead) response.end();
    else {
      const parts = Readable.from(body);
      pipeline(reply.gone === undefined ? parts : addAbortSignal(reply.gone, parts), response, sent);
    }
    return;
  }
  const isRaw = reply.mediaType !== undefined && (typeof body === "string" || Buffer.isBuffer(body));
  const content = isRaw ? body : `${JSON.stringify(body)}\n`;
  response.writeHead(reply.status, { ...headers, "Content-Length": Buffer.byteLength(content) });
  response.end(isHead ? undefined : content);
}

function isParts(body: unknown): body is AsyncIterable<string> {
  return typeof body === "object" && body !== null && Symbol.asyncIterator in body;
}
