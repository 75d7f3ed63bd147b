/**
 * A small model of what may be granted: the maximum that each bucket can hold now, and what each node has reported.
 * Independent of the scripts. Every reply of a store must be consistent with it.
 */
import type { BucketLimits } from "../../src/core/app-limits.js";
import type { ClusterLimits } from "../../src/quota/quota.js";

interface Level {
  tokens: number;
  at: number;
  /** Refill that did not fit since the bucket was last changed. */
  lost: number;
  changedAt: number;
}

/** The last outage of an app's shard, and what it leaves to pay for overdraft. */
interface Outage {
  shardUsedAt: number;
  from: number;
  to: number;
  spare: number;
}

/** As in docs/GUARANTEES.md, in microseconds. */
const SHORTEST_OUTAGE = 1.5e6;
const REPORTING_TIME = 10e6;

export interface Account {
  granted: number;
  spent: number;
  returned: number;
}

export interface Counters extends Account {
  app: string;
}

export interface Model {
  /** Advances the time. A clock that steps back refills nothing. */
  moveTo(now: number): void;
  /** The node has sent messages that got no reply, which the next one tells. */
  missed(node: string): void;
  /** The next operation uses the shard of these apps, and changes the buckets of `changed`. */
  uses(apps: string[], changed: string[]): void;
  /** A new message was applied. `granted` is the grant per app in the reply, if it granted. */
  booked(node: string, messages: Counters[], granted: (number | undefined)[], lent: number[]): void;
  borrowed(app: string, tokens: number): void;
  repaid(app: string, tokens: number): void;
  /** A node was declared dead: returns what it held of this app. */
  recovered(node: string, app: string): number;
  /** A node left: all it held of these apps is returned. */
  left(node: string, apps: string[]): void;
  totals(app: string): Account;
}

/** Descriptions of violations. */
export class BrokenPromise extends Error {}

/**
 * Spending beyond a grant is charged to L2 only: L1 pays what it has above its reserve, which may be nothing. After an outage, refill
 * that did not fit pays for it first.
 */
export function createModel(cluster: ClusterLimits, apps: BucketLimits[], start: number): Model {
  const limits = new Map<string, { capacity: number; rate: number }>();
  const levels = new Map<string, Level>();
  const add = (name: string, capacity: number, rate: number) => {
    limits.set(name, { capacity, rate });
    levels.set(name, { tokens: capacity, at: start, lost: 0, changedAt: start });
  };
  add("", cluster.capacity, cluster.rate);
  for (const app of apps) add(app.id, app.burst, app.guaranteed);
  const accounts = new Map<string, Account>();
  const outages = new Map<string, Outage>();
  const missedAt = new Map<string, number>();

  const level = (name: string) => levels.get(name) as Level;
  const capacity = (name: string) => (limits.get(name) as { capacity: number }).capacity;
  const account = (node: string, app: string) => {
    const key = `${node} ${app}`;
    const known = accounts.get(key) ?? { granted: 0, spent: 0, returned: 0 };
    accounts.set(key, known);
    return known;
  };
  /** Overdraft by account: L1 may have written it off, and does not count it as held if it is refunded. */
  const overdraft = new Map<string, number>();
  /** Spending that spare refill has paid for: if it is refunded, the bucket pays for the tokens that the node holds again. */
  const spareSpent = new Map<string, number>();
  /** What nodes hold of an app; of all apps only what L1 has certainly paid. */
  const held = (name: string) => {
    let sum = 0;
    for (const [key, { granted, spent, returned }] of accounts) {
      const own = granted - spent - returned;
      if (name === "") sum += Math.max(own - (overdraft.get(key) ?? 0), 0);
      else if (key.endsWith(` ${name}`)) sum += own;
    }
    return sum;
  };
  /** Held tokens count towards the capacity. */
  const room = (name: string) => Math.max(capacity(name) - held(name), 0);
  const giveBack = (app: string, tokens: number) => {
    for (const name of ["", app]) level(name).tokens = Math.min(level(name).tokens + tokens, room(name));
  };
  const isReportTime = ({ to }: Outage, now: number) => now >= to && now <= to + REPORTING_TIME;
  const charge = (node: string, app: string, tokens: number) => {
    const outage = outages.get(app);
    const now = level(app).at;
    const mayPay = outage !== undefined && isReportTime(outage, now) && (missedAt.get(node) ?? -1) >= outage.from;
    const spare = mayPay ? outage.spare : 0;
    const paid = Math.min(tokens, Math.floor(spare + 1e-9));
    if (outage !== undefined) outage.spare -= paid;
    const key = `${node} ${app}`;
    spareSpent.set(key, (spareSpent.get(key) ?? 0) + paid);
    level(app).tokens -= tokens - paid;
  };

  function take(app: string, tokens: number, lent: number): void {
    level(app).tokens += lent;
    for (const name of ["", app]) {
      if (tokens > level(name).tokens + 1e-6) {
        const layer = name === "" ? "L1" : `L2 of ${name}`;
        throw new BrokenPromise(`I1: ${tokens} tokens granted, ${layer} holds at most ${level(name).tokens}`);
      }
      level(name).tokens -= tokens;
    }
  }

  return {
    moveTo(now) {
      for (const [name, bucket] of levels) {
        const { rate } = limits.get(name) as { rate: number };
        const gained = (Math.max(now - bucket.at, 0) * rate) / 1e6;
        const lost = Math.max(bucket.tokens + gained - room(name), 0);
        bucket.lost += Math.min(lost, gained);
        bucket.tokens += gained - lost;
        bucket.at = now;
      }
    },
    missed(node) {
      missedAt.set(node, level("").at);
    },
    uses(ids, changed) {
      for (const app of ids) {
        const bucket = level(app);
        const now = bucket.at;
        // A new store does not know for how long its full buckets were not used.
        const outage = outages.get(app) ?? { shardUsedAt: now, from: 0, to: now, spare: Number.POSITIVE_INFINITY };
        outages.set(app, outage);
        if (now - outage.shardUsedAt > SHORTEST_OUTAGE) {
          const continues = outage.from > 0 && isReportTime(outage, outage.shardUsedAt);
          if (!continues) Object.assign(outage, { from: outage.shardUsedAt, spare: 0 });
          outage.to = now;
        }
        outage.shardUsedAt = now;
        // A reconcile may have changed the bucket, too: at an earlier time, if the clock was set back.
        bucket.changedAt = Math.min(bucket.changedAt, now);
        if (!changed.includes(app) || now < outage.to) continue;
        const { rate } = limits.get(app) as { rate: number };
        const micros = Math.max(outage.to - Math.max(bucket.changedAt, outage.from), 0);
        if (isReportTime(outage, now)) outage.spare += Math.min(bucket.lost, (micros * rate) / 1e6);
        Object.assign(bucket, { lost: 0, changedAt: now });
      }
    },
    booked(node, messages, granted, lent) {
      messages.forEach((message, i) => {
        const own = account(node, message.app);
        const returned = Math.max(message.returned - own.returned, 0);
        own.returned += returned;
        const key = `${node} ${message.app}`;
        const again = Math.min(Math.max(own.spent - message.spent, 0), spareSpent.get(key) ?? 0);
        level(message.app).tokens -= again;
        spareSpent.set(key, (spareSpent.get(key) ?? 0) - again);
        own.spent = message.spent;
        const uncovered = Math.max(own.spent + own.returned - own.granted, 0);
        own.granted += uncovered;
        overdraft.set(key, (overdraft.get(key) ?? 0) + uncovered);
        charge(node, message.app, Math.max(uncovered - returned, 0));
        giveBack(message.app, Math.max(returned - uncovered, 0));
        const total = granted[i];
        if (total === undefined) return;
        if (total < own.granted) throw new BrokenPromise(`I5: ${node} was granted ${own.granted}, now only ${total}`);
        if (total > own.granted) take(message.app, total - own.granted, lent[i] ?? 0);
        own.granted = total;
      });
    },
    borrowed(app, tokens) {
      level(app).tokens += tokens;
    },
    repaid(app, tokens) {
      level(app).tokens -= tokens;
    },
    recovered(node, app) {
      const own = account(node, app);
      const held = own.granted - own.spent - own.returned;
      own.returned += held;
      giveBack(app, held);
      return held;
    },
    left(node, ids) {
      for (const app of ids) this.recovered(node, app);
    },
    totals(app) {
      const sum: Account = { granted: 0, spent: 0, returned: 0 };
      for (const [key, own] of accounts) {
        if (!key.endsWith(` ${app}`)) continue;
        sum.granted += own.granted;
        sum.spent += own.spent;
        sum.returned += own.returned;
      }
      return sum;
    },
  };
}
