/** Calls a service through Envoy's clusters, which add the token. Only the current request waits for the reply. */
import { storedNumber } from "../../core/platform.js";
import { pcall } from "../lua/library.js";
import type { Handle } from "./envoy-api.js";
import { worker } from "./state.js";

export interface ServiceReply {
  /** 0 if the call could not be made. */
  status: number;
  body: string;
  timedOut: boolean;
  /** Envoy itself had too many calls in flight. */
  overloaded: boolean;
}

/** Envoy's own response after the timeout. */
const GATEWAY_TIMEOUT = 504;

export function callService(handle: Handle, cluster: string, path: string, body: string): ServiceReply {
  const reply: ServiceReply = { status: 0, body: "", timedOut: false, overloaded: false };
  const [fine, problem] = pcall(callInto, reply, handle, cluster, { path, body });
  if (!fine) reply.body = problem;
  return reply;
}

function callInto(reply: ServiceReply, handle: Handle, cluster: string, request: { path: string; body: string }): void {
  const { timeoutMs } = worker.options;
  const sent = {
    ":method": "POST",
    ":path": request.path,
    // A name that every control listener accepts; the cluster selects the machine.
    ":authority": "localhost",
    "content-type": "text/plain",
  };
  const [headers, answer] = handle.httpCall(cluster, sent, request.body, timeoutMs);
  reply.status = storedNumber(headers[":status"] ?? false, 0);
  reply.body = answer ?? "";
  reply.timedOut = reply.status === GATEWAY_TIMEOUT;
  reply.overloaded = headers["x-envoy-overloaded"] !== undefined;
}
