/** Calls of the service through Envoy's clusters: the request at hand waits, all others go on. */
import { storedNumber } from "../../core/platform.js";
import { pcall } from "../lua/library.js";
import type { Handle } from "./envoy-api.js";
import { worker } from "./state.js";

export interface ServiceReply {
  /** 0 where the call could not be made. */
  status: number;
  body: string;
  timedOut: boolean;
  /** Envoy itself had too many calls under way. */
  overloaded: boolean;
}

/** What Envoy answers by itself when the time is up. */
const GATEWAY_TIMEOUT = 504;

export function callService(handle: Handle, cluster: string, path: string, body: string): ServiceReply {
  const reply: ServiceReply = { status: 0, body: "", timedOut: false, overloaded: false };
  const [fine, problem] = pcall(callInto, reply, handle, cluster, path, body);
  if (!fine) reply.body = problem;
  return reply;
}

function callInto(reply: ServiceReply, handle: Handle, cluster: string, path: string, body: string): void {
  const { planeToken, timeoutMs } = worker.settings;
  const [headers, answer] = handle.httpCall(
    cluster,
    {
      ":method": "POST",
      ":path": path,
      // A name that the control listener knows everywhere; which machine it is, the cluster says.
      ":authority": "localhost",
      authorization: `Bearer ${planeToken}`,
      "content-type": "text/plain",
    },
    body,
    timeoutMs,
  );
  reply.status = storedNumber(headers[":status"] ?? false, 0);
  reply.body = answer ?? "";
  reply.timedOut = reply.status === GATEWAY_TIMEOUT;
  reply.overloaded = headers["x-envoy-overloaded"] !== undefined;
}
