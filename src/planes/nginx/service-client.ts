/** Calls a service over kept connections; tries the next address if one fails, within one deadline. */
import { OVERLOADED } from "../../core/codes.js";
import { storedNumber } from "../../core/platform.js";
import { luaString } from "../lua/library.js";
import type { Caller, ServiceReply } from "../lua/proxy.js";
import { hasReason } from "../lua/slot-messages.js";
import { freshNowMs, nowMs } from "./clock.js";
import { ngx, type Socket } from "./ngx.js";
import { endReplyTimer, startReplyTimer } from "./reply-timer.js";
import { secure } from "./service-tls.js";
import { nginx } from "./state.js";

const KEEP_IDLE_MS = 60000;
const KEPT_CONNECTIONS = 4;
/** nginx needs a time to wait; what has arrived is read at once. */
const LAST_LOOK_MS = 1;
/** Minimum time for an attempt. */
const SHORTEST_MS = 5;

function noReply(problem: string): ServiceReply {
  return { status: 0, body: "", timedOut: problem === "timeout", problem, tookMs: 0 };
}

export function callService(this: void, node: Caller, path: string, body: string, deadlineMs: number): ServiceReply {
  const timer = startReplyTimer();
  const reply = callInTurn(node, path, body, deadlineMs);
  reply.tookMs = endReplyTimer(timer, freshNowMs());
  return reply;
}

/** Tries the services in turn, starting with the one that last replied to this node, until one replies that is not overloaded. */
function callInTurn(node: Caller, path: string, body: string, deadlineMs: number): ServiceReply {
  const { services } = nginx.options;
  const until = nowMs() + deadlineMs;
  let reply = noReply("no service");
  for (let attempt = 0; attempt < services.length; attempt++) {
    const left = until - nowMs();
    if (left < SHORTEST_MS) return attempt === 0 ? noReply("timeout") : reply;
    // One service must not use up the time of the others.
    const share = Math.ceil(left / (services.length - attempt));
    reply = callOne(node.service, path, body, share);
    if (reply.status > 0 && !(reply.status === 503 && hasReason(reply.body, OVERLOADED))) return reply;
    node.service = node.service + 1 < services.length ? node.service + 1 : 0;
  }
  return reply;
}

function callOne(service: number, path: string, body: string, deadlineMs: number): ServiceReply {
  const { host, port } = nginx.options.services[service < nginx.options.services.length ? service : 0]!;
  const socket = ngx.socket.tcp();
  socket.settimeouts(deadlineMs, deadlineMs, deadlineMs);
  // A plaintext connection from before a reload must not be used for TLS.
  const pool = `${nginx.options.serviceTls.on ? "tls" : "tcp"}:${host}:${port}`;
  const [connected, problem] = socket.connect(host, port, { pool });
  if (connected === undefined) return noReply(problem ?? "not connected");
  const reused = socket.getreusedtimes() > 0;
  if (!reused) {
    const insecure = secure(socket, host);
    if (insecure !== "") return broken(socket, insecure);
  }
  const reply = exchange(socket, { authority: `${host}:${port}`, path, body, deadlineMs });
  // A kept connection may have been closed meanwhile. Messages can be repeated, so a new one is tried.
  if (reply.status === 0 && reused && !reply.timedOut) return callOne(service, path, body, deadlineMs);
  return reply;
}

interface Call {
  authority: string;
  path: string;
  body: string;
  deadlineMs: number;
}

function exchange(socket: Socket, { authority, path, body, deadlineMs }: Call): ServiceReply {
  const { planeToken } = nginx.options;
  const head = luaString.format(
    "POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n",
    path,
    authority,
    planeToken === "" ? "" : `Authorization: Bearer ${planeToken}\r\n`,
    body.length,
  );
  const [sent, unsent] = socket.send(head + body);
  if (sent === undefined) return broken(socket, unsent);
  let [line, silent] = socket.receive("*l");
  if (line === undefined && silent === "timeout") {
    // A worker that was busy meanwhile runs its timers first: the reply may have arrived long ago.
    socket.settimeouts(deadlineMs, deadlineMs, LAST_LOOK_MS);
    [line, silent] = socket.receive("*l");
    socket.settimeouts(deadlineMs, deadlineMs, deadlineMs);
  }
  if (line === undefined) return broken(socket, silent);
  const status = storedNumber(luaString.match(line, "^HTTP/1%.1 (%d%d%d) ") ?? false, 0);
  let length = -1;
  let keep = true;
  for (;;) {
    const [header, cut] = socket.receive("*l");
    if (header === undefined) return broken(socket, cut);
    if (header === "") break;
    const lower = luaString.lower(header);
    const given = luaString.match(lower, "^content%-length:%s*(%d+)");
    if (given !== undefined) length = storedNumber(given, -1);
    if (luaString.match(lower, "^connection:%s*(close)") !== undefined) keep = false;
  }
  if (status === 0 || length < 0) return broken(socket, "the reply is not HTTP/1.1 with a Content-Length");
  let text = "";
  if (length > 0) {
    const [received, cut] = socket.receive(length);
    if (received === undefined) return broken(socket, cut);
    text = received;
  }
  if (keep) socket.setkeepalive(KEEP_IDLE_MS, KEPT_CONNECTIONS);
  else socket.close();
  return { status, body: text, timedOut: false, problem: "", tookMs: 0 };
}

function broken(socket: Socket, problem: string | undefined): ServiceReply {
  socket.close();
  return noReply(problem ?? "closed");
}
