/**
 * A small model of what may be granted: the maximum that each bucket can hold now, and what each node has reported.
 * Independent of the scripts. Every reply of a store must be consistent with it.
 */
import type { BucketLimits } from "../../src/core/limits.js";
import type { ClusterLimits } from "../../src/quota/quota.js";

interface Level {
  tokens: number;
  at: number;
}

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
 * With several shards, spending beyond a grant is charged to the share of L1 on the shard of its app, and may exceed it. Other
 * shards grant from their own shares, so that the model charges it to L2 only.
 */
export function createModel(cluster: ClusterLimits, apps: BucketLimits[], start: number): Model {
  const oneShard = (cluster.shards ?? 1) === 1;
  const limits = new Map<string, { capacity: number; rate: number }>();
  const levels = new Map<string, Level>();
  const add = (name: string, capacity: number, rate: number) => {
    limits.set(name, { capacity, rate });
    levels.set(name, { tokens: capacity, at: start });
  };
  add("", cluster.capacity, cluster.rate);
  for (const app of apps) add(app.id, app.burst, app.guaranteed);
  const accounts = new Map<string, Account>();

  const level = (name: string) => levels.get(name) as Level;
  const capacity = (name: string) => (limits.get(name) as { capacity: number }).capacity;
  const account = (node: string, app: string) => {
    const key = `${node} ${app}`;
    const known = accounts.get(key) ?? { granted: 0, spent: 0, returned: 0 };
    accounts.set(key, known);
    return known;
  };
  /** What nodes hold of an app, or of all apps. */
  const held = (name: string) => {
    let sum = 0;
    for (const [key, { granted, spent, returned }] of accounts) {
      if (name === "" || key.endsWith(` ${name}`)) sum += granted - spent - returned;
    }
    return sum;
  };
  /** Held tokens count towards the capacity. */
  const room = (name: string) => Math.max(capacity(name) - held(name), 0);
  const giveBack = (app: string, tokens: number) => {
    for (const name of ["", app]) level(name).tokens = Math.min(level(name).tokens + tokens, room(name));
  };
  const charge = (app: string, tokens: number) => {
    for (const name of oneShard ? ["", app] : [app]) level(name).tokens -= tokens;
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
        bucket.tokens = Math.min(bucket.tokens + (Math.max(now - bucket.at, 0) * rate) / 1e6, room(name));
        bucket.at = now;
      }
    },
    booked(node, messages, granted, lent) {
      messages.forEach((message, i) => {
        const own = account(node, message.app);
        const returned = Math.max(message.returned - own.returned, 0);
        own.returned += returned;
        own.spent = message.spent;
        const uncovered = Math.max(own.spent + own.returned - own.granted, 0);
        own.granted += uncovered;
        charge(message.app, Math.max(uncovered - returned, 0));
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
