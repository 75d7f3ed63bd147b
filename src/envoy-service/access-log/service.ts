/** Envoy's Access Log Service: renews and releases connection slots and settles exchanges, as the log entries report. */
import { isIdentifier } from "../../core/platform.js";
import type { Log } from "../../shared/log.js";
import type { Caller } from "../access.js";
import type { ClientStreamMethod } from "../grpc/server.js";
import { GrpcError, PERMISSION_DENIED } from "../grpc/status.js";
import type { EnvoyConnections } from "./envoy-connections.js";
import { END, type LogEntry, type Marks, PERIODIC, readAccessLogMessage } from "./messages.js";
import type { EnvoySocket } from "./route-connections.js";
import type { FinishedExchange } from "./settlement.js";

export interface AccessLogOptions {
  connections: Pick<EnvoyConnections, "alive" | "ended">;
  /** Whether the plane may report this connection. Default: always. */
  admits?(socket: EnvoySocket, plane: string): boolean;
  settle(exchange: FinishedExchange, plane: string): void;
  log: Log;
}

/** Name of an Envoy whose node id is missing or invalid. */
const UNNAMED = "envoy";
const POD = /^[A-Za-z0-9._:[\]-]{0,256}$/;
/** Host and path. */
const ROUTE = /^[!-.0-~]{0,300}\/[!-~]{0,700}$/;
/** See `nodeInEpoch`. */
const NODE_IN_EPOCH = /^[A-Za-z0-9._:-]{1,128}@[0-9]{1,16}$/;
const MAX_TOKENS = 1_000_000;
const MAX_METHOD_LENGTH = 64;

export function createAccessLogService({ connections, admits, settle, log }: AccessLogOptions): ClientStreamMethod {
  function handle(node: string, entry: LogEntry, caller: Caller): void {
    const { marks, kind } = entry;
    if (marks.connection !== "") {
      const { connection, proxy, pod, app, route } = marks;
      const socket = { connection, proxy, pod, app, route };
      if (!isSocket(marks)) log.warn({ node }, "an Envoy reported a connection with an invalid name");
      else if (!caller.mayActFor(proxy))
        log.warn({ node, proxy }, "an Envoy reported a connection of another data plane");
      else if (admits !== undefined && !admits(socket, caller.plane))
        log.debug({ node }, "a reported connection is ignored");
      else if (kind === PERIODIC) connections.alive(socket, node);
      else if (kind === END) connections.ended(socket);
    }
    if (marks.settle && kind === END) {
      const exchange = exchangeOf(entry);
      if (exchange === undefined) log.warn({ node }, "an Envoy reported an invalid exchange");
      else if (!caller.mayActFor(nameOf(exchange.node, node)))
        log.warn({ node }, "an Envoy reported an exchange of another data plane");
      else settle(exchange, caller.plane);
    }
  }

  return {
    kind: "client-stream",
    path: "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs",
    open(caller) {
      let node = UNNAMED;
      return {
        message(bytes) {
          const message = readAccessLogMessage(bytes);
          if (message.node !== undefined) node = isIdentifier(message.node) ? message.node : UNNAMED;
          if (!caller.mayActFor(node)) {
            log.warn({ node }, "an Envoy reported as the node of another data plane");
            throw new GrpcError(PERMISSION_DENIED, "this data plane may not act for this node");
          }
          for (const entry of message.entries) handle(node, entry, caller);
        },
        ended: () => new Uint8Array(0),
      };
    },
  };
}

/** The name without the epoch. An older script does not set it: then that of the Envoy. */
function nameOf(nodeInEpoch: string, envoy: string): string {
  return nodeInEpoch === "" ? envoy : nodeInEpoch.split("@", 1)[0]!;
}

function isSocket({ connection, proxy, pod, app, route }: Marks): boolean {
  return isIdentifier(connection) && isIdentifier(proxy) && isIdentifier(app) && POD.test(pod) && ROUTE.test(route);
}

/** Undefined if the marks are invalid. */
function exchangeOf({ requestBytes, responseBytes, marks }: LogEntry): FinishedExchange | undefined {
  const { app, route, method, paid, node, reportedCost } = marks;
  const isCost = Number.isInteger(paid) && paid >= 0 && paid <= MAX_TOKENS;
  if (
    !isCost ||
    !Number.isInteger(reportedCost) ||
    !isIdentifier(app) ||
    method === "" ||
    method.length > MAX_METHOD_LENGTH
  )
    return undefined;
  if (node !== "" && !NODE_IN_EPOCH.test(node)) return undefined;
  return { app, route, method, paid, node, reportedCost, requestBytes, responseBytes };
}
