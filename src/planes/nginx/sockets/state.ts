/** What a worker knows of its upgraded connections: each is held here for as long as it lives, in the order of renewal. */

import type { NginxSocketRoute } from "../../../config/options/plane-options.js";
import type { SharedDict } from "../ngx.js";

/** One connection, from the question for its slot to its end. */
export interface Held {
  connection: string;
  /** Empty before it is placed. */
  pod: string;
  app: string;
  route: string;
  /** The candidates, while the answer is out: the slot may have been taken on any of them. */
  asked: string[];
  /** Has a lease, as far as is known here. */
  leased: boolean;
  /** The store may know of it: a release must be sent. */
  told: boolean;
  /** Over: released, or to be closed for want of room. */
  ended: boolean;
  /** Its number in shared memory; 0: there was no room for it. */
  place: number;
  /** The client's socket. */
  descriptor: number;
  /** When the pod was called, milliseconds since 1970. */
  calledAt: number;
  /** The pod has answered. */
  answered: boolean;
  before: Held | undefined;
  after: Held | undefined;
}

/** A slot that is to be freed. A worker also frees those of workers that died, each under the name it was taken by. */
export interface Ended {
  proxy: string;
  connection: string;
  pod: string;
  app: string;
}

/** How many connections are held on a pod. */
export interface PodHeld {
  pod: string;
  /** As the configuration calls it. */
  upstream: string;
  limit: number;
  held: number;
}

export interface SocketKeeper {
  dict: SharedDict;
  routes: { [name: string]: NginxSocketRoute | undefined };
  /** This worker in this life of it. */
  proxy: string;
  /** Its number in shared memory; -1: there was none left. */
  life: number;
  lastConnection: number;
  /** As the service last told it. */
  leaseMs: number;
  beatMs: number;
  /** Since when the store remembers, as its last answer told it; "0": not known. */
  memory: string;
  /** The service has no connections: its configuration is another one. */
  misfits: boolean;
  /** The store does not answer. */
  away: boolean;
  /** Stock must be taken before anybody is let in. */
  unsettled: boolean;
  /** It is being taken. */
  settling: boolean;
  /** A store that forgot is left to those whose connections live, until then. */
  heldBackUntil: number;
  /** When the next beat is due. Much later means that the worker stood still. */
  dueAt: number;
  /** A beat is under way. */
  busy: boolean;
  /** Turned, so that of pods with the same load not always the same one is first. */
  turn: number;
  first: Held | undefined;
  last: Held | undefined;
  count: number;
  /** Of these, the ones whose pod has not answered. */
  calling: number;
  byRequest: { [request: number]: Held | undefined };
  ended: Ended[];
  /** A timer that sends them is set, or they are just being sent. */
  sending: boolean;
  /** Numbers in shared memory that are free again. */
  freePlaces: number[];
  topPlace: number;
  /** When this worker found that all of nginx ends; 0: it does not. */
  quittingSince: number;
  /** Those of the configuration, each once. */
  pods: PodHeld[];
  podsByName: { [pod: string]: PodHeld | undefined };
  /** Other workers have not been told how many are held on each pod now. */
  podsChanged: boolean;
}

/** Filled when nginx begins; one table, so that functions find it without being handed it. */
export const keeper = {} as SocketKeeper;

/** At the end of the line: its turn comes after that of all others. */
export function enlist(one: Held): void {
  one.before = keeper.last;
  one.after = undefined;
  if (keeper.last === undefined) keeper.first = one;
  else keeper.last.after = one;
  keeper.last = one;
  keeper.count = keeper.count + 1;
}

export function delist(one: Held): void {
  if (one.before === undefined) keeper.first = one.after;
  else one.before.after = one.after;
  if (one.after === undefined) keeper.last = one.before;
  else one.after.before = one.before;
  one.before = undefined;
  one.after = undefined;
  keeper.count = keeper.count - 1;
}

/** Those whose turn it is. */
export function nextInTurn(most: number): Held[] {
  const some: Held[] = [];
  while (some.length < most) {
    const one = keeper.first;
    if (one === undefined || one === some[0]) break;
    delist(one);
    enlist(one);
    some.push(one);
  }
  return some;
}
