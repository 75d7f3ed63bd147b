/**
 * Divides the connections to a target, and the places in the queue for them, among apps and client addresses.
 *
 * A free connection is given to a request only while there are more free ones than its client already holds, plus a quarter of
 * those that its app holds. So everybody may take many while there are many, but nobody can take the last ones: a client gets
 * at most 44 %, an app at most 80 %, and each less if there are several. Requests without a share wait. Apps take turns, then
 * the clients of an app. If a request waits for long, a slow transfer of whoever holds most is ended for it.
 */
import type { Clock } from "../../../shared/clock.js";

/** Of the connections of an app, the part that counts against a further one. */
const APP_PART = 4;
/** While requests wait, slow transfers are looked for at this interval, for requests that have waited for this part of their time. */
const RECLAIM_MS = 250;
const RECLAIM_PART = 0.2;
/** Transfers that are ended at a time. */
const MOST_RECLAIMED = 16;
/** Apps and clients that are remembered although they hold nothing, so that not every request creates them again. */
const MOST_REMEMBERED = 1_024;

/** A request that needs a connection. */
export interface Seeker {
  /** The end of its time in the queue, on the clock. Called only if it has to wait. */
  waitUntilMs(): number;
  /** Called for a request that waited: it holds a connection from now on. */
  connectionFree(): void;
  /** Called instead if it waited for too long. */
  waitedTooLong(): void;
  /** Whether its client has delayed it for long, so that its connection may be given to another request. */
  mayYield(): boolean;
  /** Ends it. */
  yieldConnection(): void;
}

/** What an app or a client holds of a target. */
interface Party {
  readonly key: string;
  connections: number;
  waiting: number;
}

/** The connection of a request, or its place in the queue. */
export interface Place {
  readonly app: Party;
  /** Undefined if the address of the client is unknown. */
  readonly client: Party | undefined;
  readonly seeker: Seeker;
  /** In the queue since then. */
  sinceMs: number;
  /** Undefined: it holds a connection. */
  untilMs: number | undefined;
}

export class ConnectionShares {
  private waiting = 0;
  private readonly apps = new Parties();
  private readonly clients = new Parties();
  /** Places in the queue by app and client. Apps and clients are in the order of their turns. */
  private readonly queue = new Map<Party, Map<Party | undefined, Set<Place>>>();
  /** Those that hold a connection, in the order in which they got it. */
  private readonly holders = new Set<Place>();
  /** Gets the next free connection even without a share. */
  private favoured: Place | undefined;
  private stopTimer: (() => void) | undefined;
  private timerAtMs = 0;

  constructor(
    readonly connections: number,
    /** Maximum of requests that wait. */
    public maxWaiting: number,
    private readonly clock: Clock,
  ) {}

  /** Requests that hold or wait for a connection. */
  get outstanding(): number {
    return this.holders.size + this.waiting;
  }

  /** `clientKey`: empty if the client is unknown. Undefined: there is no place in the queue for the request. */
  enter(appKey: string, clientKey: string, seeker: Seeker): Place | undefined {
    const app = this.apps.of(appKey);
    const client = clientKey === "" ? undefined : this.clients.of(clientKey);
    const place: Place = { app, client, seeker, sinceMs: 0, untilMs: undefined };
    // Nobody in the queue has a share, otherwise it would have been served. So the request takes it from nobody.
    if (this.hasShare(app, client)) {
      this.take(place);
      return place;
    }
    const waiting = client === undefined ? 0 : client.waiting;
    if (waiting + app.waiting / APP_PART >= this.maxWaiting - this.waiting) {
      this.forget(place);
      return undefined;
    }
    place.sinceMs = this.clock.now();
    place.untilMs = seeker.waitUntilMs();
    this.wait(place);
    return place;
  }

  /** Gives the connection or the place in the queue back. */
  leave(place: Place): void {
    const { app, client } = place;
    if (place.untilMs !== undefined) {
      this.unqueue(place);
      return;
    }
    this.holders.delete(place);
    app.connections--;
    if (client !== undefined) client.connections--;
    this.forget(place);
    if (this.waiting > 0) this.serve();
  }

  private hasShare(app: Party, client: Party | undefined): boolean {
    return weightOf(app, client) < this.connections - this.holders.size;
  }

  private take(place: Place): void {
    const { app, client } = place;
    this.holders.add(place);
    app.connections++;
    if (client !== undefined) client.connections++;
  }

  private wait(place: Place): void {
    const { app, client } = place;
    this.waiting++;
    app.waiting++;
    if (client !== undefined) client.waiting++;
    const clients = this.queue.get(app) ?? new Map<Party | undefined, Set<Place>>();
    const places = clients.get(client) ?? new Set<Place>();
    this.queue.set(app, clients);
    clients.set(client, places);
    places.add(place);
    this.wakeAt(Math.min(place.untilMs!, this.clock.now() + RECLAIM_MS));
  }

  private unqueue(place: Place): void {
    const { app, client } = place;
    const clients = this.queue.get(app)!;
    const places = clients.get(client)!;
    places.delete(place);
    if (places.size === 0) clients.delete(client);
    if (clients.size === 0) this.queue.delete(app);
    if (this.favoured === place) this.favoured = undefined;
    this.waiting--;
    app.waiting--;
    if (client !== undefined) client.waiting--;
    this.forget(place);
    if (this.waiting > 0) return;
    this.stopTimer?.();
    this.stopTimer = undefined;
  }

  private forget({ app, client }: Place): void {
    this.apps.forget(app);
    if (client !== undefined) this.clients.forget(client);
  }

  private serve(): void {
    for (let place = this.next(); place !== undefined; place = this.next()) {
      const { app, client } = place;
      // Before it leaves the queue, so that its app and client are not forgotten.
      this.take(place);
      this.unqueue(place);
      place.untilMs = undefined;
      this.endTurn(app, client);
      place.seeker.connectionFree();
    }
  }

  /** The first that has a share. Clients that have none hold connections, so there are no more of them than connections. */
  private next(): Place | undefined {
    for (const [app, clients] of this.queue) {
      if (!this.hasShare(app, undefined)) continue;
      for (const [client, places] of clients) {
        if (!this.hasShare(app, client)) continue;
        const [first] = places;
        return first;
      }
    }
    return this.holders.size < this.connections ? this.favoured : undefined;
  }

  /** Moves the client to the end of its app's clients, and the app to the end of all. */
  private endTurn(app: Party, client: Party | undefined): void {
    const clients = this.queue.get(app);
    if (clients === undefined) return;
    const places = clients.get(client);
    if (places !== undefined) {
      clients.delete(client);
      clients.set(client, places);
    }
    this.queue.delete(app);
    this.queue.set(app, clients);
  }

  private wakeAt(atMs: number): void {
    if (this.stopTimer !== undefined && this.timerAtMs <= atMs) return;
    this.stopTimer?.();
    this.timerAtMs = atMs;
    this.stopTimer = this.clock.after(Math.max(atMs - this.clock.now(), 0), () => this.check());
  }

  private check(): void {
    this.stopTimer = undefined;
    const now = this.clock.now();
    const expired: Place[] = [];
    /** One of each client: the first that has waited for long. */
    const patient: Place[] = [];
    let nextMs = now + RECLAIM_MS;
    for (const clients of this.queue.values()) {
      for (const places of clients.values()) {
        let isFirst = true;
        for (const place of places) {
          const untilMs = place.untilMs!;
          if (untilMs <= now) expired.push(place);
          else nextMs = Math.min(nextMs, untilMs);
          if (isFirst && untilMs > now && now - place.sinceMs >= (untilMs - place.sinceMs) * RECLAIM_PART) {
            patient.push(place);
          }
          isFirst = false;
        }
      }
    }
    this.wakeAt(nextMs);
    // Each leaves the queue itself.
    for (const { seeker } of expired) seeker.waitedTooLong();
    // Those that hold least come first. If there is no transfer to end for one of them, there is none for the next ones.
    patient.sort((a, b) => weightWithOneMore(a) - weightWithOneMore(b));
    let reclaimed = 0;
    for (const place of patient) {
      // It has been served meanwhile.
      if (place.untilMs === undefined) continue;
      if (!this.reclaimFor(place) || ++reclaimed === MOST_RECLAIMED) return;
    }
  }

  /** Ends the slow transfer whose client and app hold most, if they still hold more afterwards than those of the request. */
  private reclaimFor(place: Place): boolean {
    let victim: Place | undefined;
    let most = weightWithOneMore(place);
    for (const holder of this.holders) {
      const weight = weightOf(holder.app, holder.client);
      if (weight > most && holder.seeker.mayYield()) {
        victim = holder;
        most = weight;
      }
    }
    if (victim === undefined) return false;
    this.favoured = place;
    victim.seeker.yieldConnection();
    this.favoured = undefined;
    return true;
  }
}

/** What counts against a further connection. */
function weightOf(app: Party, client: Party | undefined): number {
  return (client === undefined ? 0 : client.connections) + app.connections / APP_PART;
}

function weightWithOneMore({ app, client }: Place): number {
  return weightOf(app, client) + (client === undefined ? 0 : 1) + 1 / APP_PART;
}

class Parties {
  private readonly all = new Map<string, Party>();

  of(key: string): Party {
    const known = this.all.get(key);
    if (known !== undefined) return known;
    const created = { key, connections: 0, waiting: 0 };
    this.all.set(key, created);
    return created;
  }

  /** Bounds the memory: only those that hold something must be known. */
  forget(party: Party): void {
    if (party.connections === 0 && party.waiting === 0 && this.all.size > MOST_REMEMBERED) this.all.delete(party.key);
  }
}
