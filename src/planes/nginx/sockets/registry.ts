/**
 * What all workers of this nginx hold, in shared memory: so that the slots of one that died are freed at once by another,
 * and so that all together keep to a limit while the store is gone. Whether a slot is held never depends on it: each
 * worker renews its own, and what nobody renews runs out.
 */
import { splitText, storedNumber } from "../../../core/platform.js";
import { luaString, luaTable } from "../../lua/library.js";
import { nowMs } from "../clock.js";
import { ngx } from "../ngx.js";
import { isAlive } from "./descriptor.js";
import { type Ended, type Held, keeper, type PodHeld } from "./state.js";

/** Workers, those of earlier reloads included. */
const MOST_LIVES = 256;
/** The number of a process may be another's by now: who has not been heard of for so long is gone. */
const SILENT_FOR_GOOD_MS = 600000;
/** Long enough for one worker to take over what another left. */
const TAKING_OVER_SECONDS = 10;

const lifeKey = (life: number) => luaString.format("life:%d", life);
const beatKey = (life: number) => luaString.format("beat:%d", life);
const heldKey = (life: number) => luaString.format("held:%d", life);
const topKey = (life: number) => luaString.format("top:%d", life);
const placeKey = (life: number, place: number) => luaString.format("at:%d:%d", life, place);
const takeOverKey = (life: number) => luaString.format("heir:%d", life);

export const podCountKey = (pod: string) => `pod:${pod}`;
export const appCountKey = (app: string) => `app:${app}`;
export const TOTAL_COUNT_KEY = "total";

/** Adds to a count, and answers what it is then. */
export function addToCount(key: string, by: number): number {
  const { dict } = keeper;
  dict.safe_add(key, 0);
  return dict.incr(key, by) ?? 0;
}

/** This worker's place among the living. */
export function enterLife(): void {
  const { dict, proxy } = keeper;
  keeper.life = -1;
  for (let life = 0; life < MOST_LIVES && keeper.life < 0; life++) {
    const [added] = dict.safe_add(lifeKey(life), luaString.format("%d %s", ngx.worker.pid(), proxy));
    if (added === true) keeper.life = life;
  }
  if (keeper.life < 0) ngx.log(ngx.WARN, "tollgate: should this worker die, its slots are free after a lease only");
}

export function tellAlive(): void {
  if (keeper.life < 0) return;
  keeper.dict.safe_set(beatKey(keeper.life), nowMs());
  tellHeld();
}

/** How many this worker holds on each pod: a text that goes when the worker does, so that nobody counts what is no more. */
export function tellHeld(): void {
  if (!keeper.podsChanged || keeper.life < 0) return;
  const lines: string[] = [];
  for (const { pod, upstream, limit, held } of keeper.pods) {
    if (held > 0) lines.push(luaString.format("%s %s %d %d", pod, upstream, limit, held));
  }
  const [stored] = keeper.dict.safe_set(heldKey(keeper.life), luaTable.concat(lines, "\n"));
  keeper.podsChanged = stored !== true;
}

/** What all workers hold, of this worker as of now, of the others as of their last beat. Pods that have left are listed last. */
export function heldByAll(): PodHeld[] {
  tellHeld();
  const all: PodHeld[] = [];
  const byName: { [pod: string]: PodHeld | undefined } = {};
  for (const { pod, upstream, limit } of keeper.pods) {
    const one = { pod, upstream, limit, held: 0 };
    all.push(one);
    byName[pod] = one;
  }
  for (let life = 0; life < MOST_LIVES; life++) {
    const text = keeper.dict.get(heldKey(life));
    if (text !== undefined && text !== "") {
      for (const line of splitText(text as string, "\n")) {
        const [pod, upstream, limit, held] = splitText(line, " ");
        let one = byName[pod!];
        if (one === undefined) {
          one = { pod: pod!, upstream: upstream!, limit: storedNumber(limit!, 0), held: 0 };
          all.push(one);
          byName[pod!] = one;
        }
        one.held = one.held + storedNumber(held!, 0);
      }
    }
  }
  return all;
}

export function leaveLife(): void {
  if (keeper.life >= 0) forgetLife(keeper.life);
  keeper.life = -1;
}

function forgetLife(life: number): void {
  const { dict } = keeper;
  dict.delete(heldKey(life));
  dict.delete(topKey(life));
  dict.delete(beatKey(life));
  dict.delete(lifeKey(life));
}

function countUp(pod: string, app: string, by: number): void {
  addToCount(podCountKey(pod), by);
  addToCount(appCountKey(app), by);
  addToCount(TOTAL_COUNT_KEY, by);
}

function holdOnPod(pod: string, by: number): void {
  const one = keeper.podsByName[pod];
  if (one === undefined) return;
  one.held = one.held + by;
  keeper.podsChanged = true;
}

/** `counted`: it is part of the counts already. */
export function register(one: Held, counted: boolean): void {
  const { dict, freePlaces, life } = keeper;
  if (!counted) countUp(one.pod, one.app, 1);
  holdOnPod(one.pod, 1);
  one.place = 0;
  if (life < 0) return;
  let place = freePlaces[freePlaces.length - 1];
  if (place === undefined) place = keeper.topPlace + 1;
  const [stored] = dict.safe_set(placeKey(life, place), `${one.connection} ${one.pod} ${one.app}`);
  if (stored !== true) return;
  one.place = place;
  if (place <= keeper.topPlace) {
    (freePlaces as (number | undefined)[])[freePlaces.length - 1] = undefined;
    return;
  }
  keeper.topPlace = place;
  dict.safe_set(topKey(life), place);
}

export function unregister(one: Held): void {
  countUp(one.pod, one.app, -1);
  holdOnPod(one.pod, -1);
  if (one.place === 0) return;
  keeper.dict.delete(placeKey(keeper.life, one.place));
  keeper.freePlaces.push(one.place);
}

/** What workers held that are no more: it is this worker's to free. */
export function takeOverFromDead(into: Ended[]): void {
  const { dict } = keeper;
  for (let life = 0; life < MOST_LIVES; life++) {
    const entry = life === keeper.life ? undefined : dict.get(lifeKey(life));
    if (entry !== undefined) {
      const [pid, proxy] = splitText(entry as string, " ");
      if (isGone(life, storedNumber(pid!, 0))) takeOver(life, proxy!, into);
    }
  }
}

function isGone(life: number, pid: number): boolean {
  if (!isAlive(pid) || pid === ngx.worker.pid()) return true;
  const beat = keeper.dict.get(beatKey(life));
  return beat !== undefined && nowMs() - (beat as number) > SILENT_FOR_GOOD_MS;
}

function takeOver(life: number, proxy: string, into: Ended[]): void {
  const { dict } = keeper;
  const [mine] = dict.safe_add(takeOverKey(life), true, TAKING_OVER_SECONDS);
  if (mine !== true) return;
  const top = dict.get(topKey(life));
  let count = 0;
  for (let place = 1; top !== undefined && place <= (top as number); place++) {
    const entry = dict.get(placeKey(life, place));
    if (entry !== undefined) {
      const [connection, pod, app] = splitText(entry as string, " ");
      countUp(pod!, app!, -1);
      dict.delete(placeKey(life, place));
      into.push({ proxy, connection: connection!, pod: pod!, app: app! });
      count = count + 1;
    }
  }
  forgetLife(life);
  dict.delete(takeOverKey(life));
  if (count > 0) ngx.log(ngx.WARN, "tollgate: a worker died: its connections are counted no more: ", count);
}
