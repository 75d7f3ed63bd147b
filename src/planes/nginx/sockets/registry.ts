/**
 * The connections of all workers in shared memory: if a worker dies, another one releases its slots at once. Correctness
 * does not depend on it: each worker renews its own slots, and the leases of a dead worker expire.
 */
import { splitText, storedNumber } from "../../../core/platform.js";
import { queueRelease } from "../../../engine/slots/releases.js";
import { luaString } from "../../lua/library.js";
import { nowMs } from "../clock.js";
import { ngx } from "../ngx.js";
import { isAlive } from "./client-socket.js";
import { countHeld } from "./held-counts.js";
import { type NginxSlot, sockets } from "./state.js";

/** Workers, including those from before a reload. */
const MOST_LIVES = 256;
/** A process id may be reused. A worker without a beat for this long is dead. */
const SILENT_FOR_GOOD_MS = 600000;
/** One worker at a time releases the slots of a dead one. */
const TAKING_OVER_SECONDS = 10;

const lifeKey = (life: number) => luaString.format("life:%d", life);
const beatKey = (life: number) => luaString.format("beat:%d", life);
const topKey = (life: number) => luaString.format("top:%d", life);
const placeKey = (life: number, place: number) => luaString.format("at:%d:%d", life, place);
const takeOverKey = (life: number) => luaString.format("heir:%d", life);

/** Registers this worker. */
export function enterLife(): void {
  const { dict, proxy } = sockets;
  sockets.life = -1;
  for (let life = 0; life < MOST_LIVES && sockets.life < 0; life++) {
    const [added] = dict.safe_add(lifeKey(life), luaString.format("%d %s", ngx.worker.pid(), proxy));
    if (added === true) sockets.life = life;
  }
  if (sockets.life < 0)
    ngx.log(
      ngx.WARN,
      "tollgate: too many workers: if this one dies, its slots are released only when their leases expire",
    );
}

export function tellAlive(): void {
  if (sockets.life < 0) return;
  sockets.dict.safe_set(beatKey(sockets.life), nowMs());
}

export function leaveLife(): void {
  if (sockets.life >= 0) forgetLife(sockets.life);
  sockets.life = -1;
}

function forgetLife(life: number): void {
  const { dict } = sockets;
  dict.delete(topKey(life));
  dict.delete(beatKey(life));
  dict.delete(lifeKey(life));
}

/** `counted`: it is included in the shared counts already. */
export function register(slot: NginxSlot, counted: boolean): void {
  const { dict, freePlaces, life } = sockets;
  if (!counted) countHeld(slot.pod, slot.app, 1);
  slot.place = 0;
  if (life < 0) return;
  let place = freePlaces[freePlaces.length - 1];
  if (place === undefined) place = sockets.topPlace + 1;
  const [stored] = dict.safe_set(placeKey(life, place), `${slot.connection} ${slot.pod} ${slot.app}`);
  if (stored !== true) return;
  slot.place = place;
  if (place <= sockets.topPlace) {
    (freePlaces as (number | undefined)[])[freePlaces.length - 1] = undefined;
    return;
  }
  sockets.topPlace = place;
  dict.safe_set(topKey(life), place);
}

export function unregister(slot: NginxSlot): void {
  countHeld(slot.pod, slot.app, -1);
  if (slot.place === 0) return;
  sockets.dict.delete(placeKey(sockets.life, slot.place));
  sockets.freePlaces.push(slot.place);
}

/** Releases the slots of workers that died. */
export function takeOverFromDead(): void {
  const { dict } = sockets;
  for (let life = 0; life < MOST_LIVES; life++) {
    const entry = life === sockets.life ? undefined : dict.get(lifeKey(life));
    if (entry !== undefined) {
      const [pid, proxy] = splitText(entry as string, " ");
      if (isGone(life, storedNumber(pid!, 0))) takeOver(life, proxy!);
    }
  }
}

function isGone(life: number, pid: number): boolean {
  if (!isAlive(pid) || pid === ngx.worker.pid()) return true;
  const beat = sockets.dict.get(beatKey(life));
  return beat !== undefined && nowMs() - (beat as number) > SILENT_FOR_GOOD_MS;
}

function takeOver(life: number, proxy: string): void {
  const { dict } = sockets;
  const [mine] = dict.safe_add(takeOverKey(life), true, TAKING_OVER_SECONDS);
  if (mine !== true) return;
  const top = dict.get(topKey(life));
  let count = 0;
  for (let place = 1; top !== undefined && place <= (top as number); place++) {
    const entry = dict.get(placeKey(life, place));
    if (entry !== undefined) {
      const [connection, pod, app] = splitText(entry as string, " ");
      countHeld(pod!, app!, -1);
      dict.delete(placeKey(life, place));
      queueRelease(sockets.keeper.releases, { proxy, connection: connection!, pod: pod!, app: app! });
      count = count + 1;
    }
  }
  forgetLife(life);
  dict.delete(takeOverKey(life));
  if (count > 0) ngx.log(ngx.WARN, "tollgate: a worker died: its slots are released: ", count);
}
