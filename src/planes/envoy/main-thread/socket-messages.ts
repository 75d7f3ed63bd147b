/** What workers tell about upgrades, and what a main thread hands over to the one that replaces it. */
import { storedNumber, wholeText } from "../../../core/platform.js";
import { appendHeld } from "../../../engine/slots/held.js";
import { type EndedSlot, queueRelease, releasesLeft } from "../../../engine/slots/releases.js";
import { countSlot, podCountKey } from "../../../engine/slots/without-store.js";
import type { NodeDetails } from "../../lua/host.js";
import { nowMs } from "../../lua/host.js";
import { worker } from "../../lua/http/state.js";
import { luaString, luaTable, pcall } from "../../lua/library.js";
import { makeCalls } from "../../lua/sockets/keeper-calls.js";
import { slotHome } from "../../lua/sockets/state.js";
import { FAILED, GOING_AWAY, HOLD, PLACED, REFUSED, RELEASE } from "../messages.js";
import { lib, logError, state } from "../module-api.js";
import { newUpgrade, place, type Upgrade } from "./placing.js";
import { endChecks } from "./pod-checks.js";
import { abandon, type EnvoyRoute, endConnection, newSlot, openOn, sockets } from "./sockets.js";
import { runAll, sleepMs, start } from "./tasks.js";

/** Upgrades that wait for the service or for a pod. */
interface Asked {
  upgrade: Upgrade;
  words: string[];
}

const asked: { list: Asked[] } = { list: [] };
const NONE = "-";

function answer(waiter: number, words: string[]): boolean {
  const text = luaTable.concat(words, " ");
  return lib.tollgate_answer(state, waiter, text, text.length) === 1;
}

function tell(words: string[]): void {
  const text = luaTable.concat(words, " ");
  lib.tollgate_tell(state, text, text.length);
}

const orNone = (text: string | undefined) => (text === undefined || text === "" ? NONE : text);
const orEmpty = (word: string | undefined) => (word === undefined || word === NONE ? "" : word);

/** Words of the message. */
export function startPlacing(words: string[]): void {
  const waiter = storedNumber(words[1] ?? false, -1);
  const route = sockets.byName[words[6] ?? ""];
  if (route === undefined) {
    answer(waiter, [REFUSED, "no_connections", "0"]);
    return;
  }
  const stream = storedNumber(words[2] ?? false, -1);
  const upgrade = newUpgrade(route, words[3]!, orEmpty(words[4]), stream, words[5] === "1");
  const one: Asked = { upgrade, words };
  asked.list.push(one);
  start(() => {
    const [fine, placement] = pcall(place, upgrade);
    const others: Asked[] = [];
    for (const other of asked.list) if (other !== one) others.push(other);
    asked.list = others;
    if (!fine) {
      // The client must not wait for ever.
      logError(`tollgate: ${placement}`);
      abandon(upgrade.slot);
      answer(waiter, [FAILED, "plane_error"]);
      return;
    }
    const { pod, problem, code, retryAfterSeconds } = placement;
    if (problem !== "") answer(waiter, [FAILED, problem]);
    else if (pod === undefined) answer(waiter, [REFUSED, code, wholeText(Math.ceil(retryAfterSeconds))]);
    // If the request is gone, nobody else ends the connection.
    else if (!answer(waiter, [PLACED, pod, upgrade.slot.connection, orNone(code)])) endConnection(upgrade.slot);
  });
}

/** All connections, releases and upgrades that wait: the main thread that replaces this one continues with them. */
export function handOverSockets(): void {
  sockets.retired = true;
  endChecks();
  for (const { upgrade, words } of asked.list) {
    abandon(upgrade.slot);
    tell(words);
  }
  for (const route of sockets.routes) {
    const { sending, waiting } = route.keeper.releases;
    for (const ended of sending) tellRelease(route.options.name, ended);
    for (const ended of waiting) tellRelease(route.options.name, ended);
    for (const slot of openOn(route)) {
      const { connection, pod, app, client, stream, leased, inStore, answered, slotless } = slot;
      const flags = `${flag(leased)}${flag(inStore)}${flag(answered)}${flag(slotless)}`;
      tell([HOLD, connection, pod, app, orNone(client), wholeText(stream), flags, route.options.name]);
    }
  }
}

/** Envoy exits: clients learn it before their streams are settled. */
export function closeSockets(): void {
  for (const { upgrade } of asked.list) lib.tollgate_close(state, upgrade.stream, GOING_AWAY);
  for (const route of sockets.routes) {
    for (const { stream } of openOn(route)) lib.tollgate_close(state, stream, GOING_AWAY);
  }
}

/** All slots are released. In a task. */
export function leaveSockets(): void {
  sockets.retired = true;
  for (const { upgrade } of asked.list) abandon(upgrade.slot);
  const until = nowMs() + worker.options.timeoutMs;
  runAll((route) => leaveRoute(route, until), sockets.routes);
  // Envoy must not exit before the close frames are sent.
  while (lib.tollgate_kept(state) > 0 && nowMs() < until) sleepMs(LEAVE_POLL_MS);
}

/** How often it looks whether releases have been answered, and connections closed. */
const LEAVE_POLL_MS = 10;

function leaveRoute(route: EnvoyRoute, until: number): void {
  const { keeper } = route;
  for (const slot of openOn(route)) endConnection(slot);
  while (releasesLeft(keeper.releases) > 0 && !keeper.contact.away && nowMs() < until) {
    keeper.releasesFailed = false;
    makeCalls(route);
    if (releasesLeft(keeper.releases) > 0) sleepMs(LEAVE_POLL_MS);
  }
}

function flag(value: boolean): string {
  return value ? "1" : "0";
}

function tellRelease(route: string, { proxy, connection, pod, app, client }: EndedSlot): void {
  tell([RELEASE, proxy, connection, pod, app, orNone(client), route]);
}

/** Words of the message. A connection of a route that is not configured any more keeps its slot until the lease ends. */
export function takeOver(words: string[]): void {
  const route = sockets.byName[words[7] ?? ""];
  if (route === undefined) return;
  const slot = newSlot(route, words[3]!, orEmpty(words[4]), storedNumber(words[5] ?? false, -1));
  const flags = words[6] ?? "";
  const isSet = (at: number) => luaString.sub(flags, at, at) === "1";
  slot.connection = words[1]!;
  slot.pod = words[2]!;
  slot.leased = isSet(1);
  slot.inStore = isSet(2);
  slot.answered = isSet(3);
  slot.slotless = isSet(4);
  slot.ended = false;
  slot.placed = true;
  slot.calledAt = nowMs();
  const early = sockets.early[slot.connection];
  if (early !== undefined) slot.answered = true;
  if (!slot.answered) sockets.calling = sockets.calling + 1;
  if (slot.slotless) appendHeld(route.slotless, slot);
  else {
    appendHeld(route.keeper.held, slot);
    countSlot(route.counts, slot, 1);
  }
  sockets.byConnection[slot.connection] = slot;
  if (early?.ended === true) endConnection(slot);
}

export function takeRelease(words: string[]): void {
  const route = sockets.byName[words[6] ?? ""];
  if (route === undefined) return;
  const [, proxy, connection, pod, app] = words;
  const client = orEmpty(words[5]);
  queueRelease(route.keeper.releases, {
    proxy: proxy ?? slotHome.proxy,
    connection: connection!,
    pod: pod!,
    app: app!,
    client,
  });
}

/** Minimum time between two lists of pods. */
const PODS_PAUSE_MS = 1000;
/** Pods in a message. */
const MOST_POD_LINES = 200;
const podReport = { at: 0 };
/** By which a service distinguishes it from nginx. */
const ENVOY = " envoy=1";

/** Of the host. */
export function socketDetails(this: void): NodeDetails {
  if (sockets.routes.length === 0) return { fields: ENVOY, lines: "" };
  let held = 0;
  for (const { keeper, slotless } of sockets.routes) held = held + keeper.held.count + slotless.count;
  const fields = `${ENVOY}${luaString.format(" connections=%d", held)}`;
  const elapsed = nowMs() - podReport.at;
  if (elapsed >= 0 && elapsed < PODS_PAUSE_MS) return { fields, lines: "" };
  podReport.at = nowMs();
  const lines = ["#pods\n"];
  for (const { options, counts } of sockets.routes) {
    for (const pod of options.pods) {
      const count = counts.add(podCountKey(pod), 0);
      if (count > 0 && lines.length <= MOST_POD_LINES) {
        lines.push(luaString.format("#pod %s %s %s %d\n", options.name, options.upstream, pod, count));
      }
    }
  }
  return { fields, lines: luaTable.concat(lines) };
}
