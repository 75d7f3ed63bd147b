/** Calls a service through a cluster of Envoy, which adds the token and chooses the service. */
import { OVERLOADED } from "../../../core/codes.js";
import { luaString } from "../../lua/library.js";
import type { Caller, ServiceReply } from "../../lua/proxy.js";
import { hasReason } from "../../lua/slot-messages.js";
import { systemNowMs } from "../../lua/system-clock.js";
import { coroutine, lib, resultText, state, type Thread } from "../module-api.js";
import { envoy } from "../module-state.js";
import { after, continueTask, lateMs } from "./tasks.js";

interface Call {
  task: Thread;
  /** When Envoy gives it up. */
  deadline: number;
  reply: ServiceReply;
}

/** In flight, by number. */
const calls: { open: { [id: number]: Call | undefined }; ids: number[]; watched: boolean } = {
  open: {},
  ids: [],
  watched: false,
};

/** Envoy's own responses: it has waited too long, or no service could be reached. */
const GATEWAY_TIMEOUT = 504;
const UNAVAILABLE = 503;
/** Messages can be repeated: another service is asked this often. */
const ATTEMPTS = 3;
/** Minimum time for an attempt. */
const SHORTEST_MS = 5;

/** Only in a task. */
export function callService(this: void, _caller: Caller, path: string, body: string, deadlineMs: number): ServiceReply {
  const startedAt = systemNowMs();
  const lateBefore = lateMs();
  const reply = callInTurn(path, body, startedAt + deadlineMs);
  // Not the delay of the main thread itself.
  reply.tookMs = Math.max(systemNowMs() - startedAt - (lateMs() - lateBefore), 0);
  return reply;
}

function callInTurn(path: string, body: string, until: number): ServiceReply {
  let reply = callOnce(path, body, until - systemNowMs());
  for (let attempt = 1; attempt < ATTEMPTS; attempt++) {
    const left = until - systemNowMs();
    if (!isElsewhereBetter(reply) || left < SHORTEST_MS) return reply;
    reply = callOnce(path, body, left);
  }
  return reply;
}

/** No service was reached, or one that is overloaded. The errors of a service have a reason; those of Envoy do not. */
function isElsewhereBetter({ status, body, timedOut }: ServiceReply): boolean {
  if (status === 0) return !timedOut;
  if (status !== UNAVAILABLE) return false;
  return hasReason(body, OVERLOADED) || luaString.find(body, '"reason":', 1, true) === undefined;
}

function callOnce(path: string, body: string, deadlineMs: number): ServiceReply {
  const { cluster } = envoy.options;
  const reply: ServiceReply = {
    status: 0,
    body: "",
    timedOut: false,
    problem: "the call could not be made",
    tookMs: 0,
  };
  const milliseconds = Math.max(Math.floor(deadlineMs), 1);
  const id = lib.tollgate_call(state, cluster, cluster.length, path, path.length, body, body.length, milliseconds);
  if (id === 0) return reply;
  calls.open[id] = { task: coroutine.running(), deadline: systemNowMs() + milliseconds, reply };
  calls.ids.push(id);
  if (!calls.watched) watch();
  coroutine.yield();
  return reply;
}

/** While a reply is due, the main thread wants to be woken this often: so it knows by how much it is late. */
const WATCH_MS = 3;

function watch(this: void): void {
  calls.watched = calls.ids.length > 0;
  if (calls.watched) after(WATCH_MS, watch);
}

/** Envoy has a reply for the call; its body is the result of the last call of the module. */
export function replied(this: void, id: number, status: number): void {
  const call = calls.open[id];
  if (call === undefined) return;
  const { reply } = call;
  reply.status = status;
  reply.body = resultText();
  reply.timedOut = status === GATEWAY_TIMEOUT;
  reply.problem = status === 0 ? "the connection to the service was closed" : "";
  forget(id);
  continueTask(call.task);
}

function forget(id: number): void {
  calls.open[id] = undefined;
  const others: number[] = [];
  for (const other of calls.ids) if (other !== id) others.push(other);
  calls.ids = others;
}

/** Calls of one configuration, at most; also in tollgate.h. */
const CALLS_OF_CONFIG = 4294967296;

/** Envoy has dropped all calls of a configuration, because the listener that made them was replaced. */
export function callsLost(configuration: number): void {
  endCalls("the listener was replaced", (id) => Math.floor(id / CALLS_OF_CONFIG) === configuration);
}

/** Envoy ends calls in time. If it does not, the node must not wait for ever. */
const PATIENCE_MS = 1000;

export function giveUpLateCalls(): void {
  const now = systemNowMs();
  endCalls("no reply in time", (_id, { deadline }) => now > deadline + PATIENCE_MS);
}

function endCalls(problem: string, isOver: (this: void, id: number, call: Call) => boolean): void {
  for (const id of calls.ids) {
    const call = calls.open[id];
    if (call !== undefined && isOver(id, call)) {
      call.reply.problem = problem;
      forget(id);
      continueTask(call.task);
    }
  }
}
