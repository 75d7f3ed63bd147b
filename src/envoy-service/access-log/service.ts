/** Envoy's access log, received: sockets that live are renewed, those that ended are released, and what moved is charged. */
import { isIdentifier } from "../../core/platform.js";
import type { Log } from "../../shared/log.js";
import type { ClientStreamMethod } from "../grpc/server.js";
import type { EnvoyConnections } from "./envoy-connections.js";
import { END, type LoggedStream, PERIODIC, readAccessLogMessage, type StreamMarks } from "./messages.js";

export const STREAM_ACCESS_LOGS = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";

export interface AccessLogOptions {
  connections: Pick<EnvoyConnections, "alive" | "ended">;
  settle(settlement: Settlement): void;
  log: Log;
}

/** An exchange that Envoy has ended, and what it was let in for. */
export interface Settlement {
  app: string;
  method: string;
  paid: number;
  requestBytes: number;
  responseBytes: number;
}

const SWITCHING_PROTOCOLS = 101;
const NOTHING = new Uint8Array(0);
/** An Envoy that says no name, or one that is none. */
const UNNAMED = "envoy";
const POD = /^[A-Za-z0-9._:[\]-]{0,256}$/;
/** As much as a request can cost. */
const MOST_TOKENS = 1_000_000;

export function accessLogMethod({ connections, settle, log }: AccessLogOptions): ClientStreamMethod {
  function take(node: string, stream: LoggedStream): void {
    const { marks, kind } = stream;
    const { connection, proxy, pod, app, route } = marks;
    if (connection !== "") {
      const socket = { connection, proxy, pod, app, route };
      if (!isSocket(marks)) log.warn({ node }, "an Envoy told of a connection that has no valid name");
      else if (kind === PERIODIC) connections.alive(socket, node);
      else if (kind === END) connections.ended(socket);
    }
    if (marks.settle && kind === END) {
      const settlement = settlementOf(stream);
      if (settlement === undefined) log.warn({ node }, "an Envoy told of an exchange that makes no sense");
      else settle(settlement);
    }
  }

  return {
    kind: "client-stream",
    path: STREAM_ACCESS_LOGS,
    open() {
      let node = UNNAMED;
      return {
        message(bytes) {
          const message = readAccessLogMessage(bytes);
          if (message.node !== undefined) node = isIdentifier(message.node) ? message.node : UNNAMED;
          for (const stream of message.streams) take(node, stream);
        },
        ended: () => NOTHING,
      };
    },
  };
}

function isSocket({ connection, proxy, pod, app }: StreamMarks): boolean {
  return isIdentifier(connection) && isIdentifier(proxy) && isIdentifier(app) && POD.test(pod);
}

/** The bytes of a tunnel count as the client's, as on every plane: no request is expected to be answered with as many. */
function settlementOf({ status, requestBytes, responseBytes, marks }: LoggedStream): Settlement | undefined {
  const { app, method, paid } = marks;
  const isCost = Number.isInteger(paid) && paid >= 0 && paid <= MOST_TOKENS;
  if (!isCost || !isIdentifier(app) || method === "" || method.length > 64) return undefined;
  const moved =
    status === SWITCHING_PROTOCOLS
      ? { requestBytes: requestBytes + responseBytes, responseBytes: 0 }
      : { requestBytes, responseBytes };
  return { app, method, paid, ...moved };
}
