/** The accounts of a limiter. None is dropped before the store has the final report about it. */

import type { AppLimits } from "../core/app-limits.js";
import { type BalanceCell, MISS } from "../core/lease.js";
import { shardOf } from "../core/shard.js";
import { type Account, type NodeState, newAccount, type Waiter } from "../engine/account.js";

/** A request that waits for a sync, as a promise. */
export interface LimiterWaiter extends Waiter {
  /** Called when the outcome is decided. */
  wake(): void;
  /** Called if the account is removed meanwhile: another one may pay, at another price. */
  decideAgain(): void;
}

export interface LimiterAccount extends Account<LimiterWaiter> {
  node: LimiterNode;
  /** It is the bucket of a value that requests choose, whose number is limited. */
  isValue: boolean;
  /** It was used since it was last examined, see `value-table.ts`. */
  isUsed: boolean;
}

/** The node on one shard. */
export type LimiterNode = NodeState<LimiterAccount>;

/** An app that has left: its counters in the store, and the limits under which its last exchanges are settled. */
interface DepartedApp {
  limits: AppLimits;
  granted: number;
  returned: number;
}

export type Accounts = ReturnType<typeof createAccounts>;

export interface AccountsOptions {
  apps: AppLimits[];
  /** On all shards. */
  nodes: readonly LimiterNode[];
  now(): number;
}

export function createAccounts({ apps: configured, nodes, now }: AccountsOptions) {
  const apps = new Map<string, LimiterAccount>();
  const descriptorLimits = new Map<string, LimiterAccount>();
  const leaving = new Map<string, LimiterAccount>();
  let valueCount = 0;
  /** Grows with used apps that an operator removes, not with requests. */
  const departed = new Map<string, DepartedApp>();
  replace(configured);

  function nodeOf(id: string): LimiterNode {
    return nodes[shardOf(id, nodes.length)]!;
  }

  function create(limits: AppLimits): LimiterAccount {
    const account = newAccount(limits, nodeOf(limits.id), now(), new NodeCell()) as LimiterAccount;
    account.refunds = new NodeCell();
    account.isValue = false;
    account.isUsed = false;
    return account;
  }

  /** Counters in messages must not restart within an epoch: an app that returns continues with its old ones. */
  function createApp(limits: AppLimits): LimiterAccount {
    const account = create(limits);
    const before = departed.get(limits.id);
    if (before === undefined) return account;
    departed.delete(limits.id);
    const { granted, returned } = before;
    const spent = granted - returned;
    Object.assign(account.lease, { granted, returned, spentAtReport: spent });
    Object.assign(account.sync, { reportedSpent: spent, reportedReturned: returned, sentSpent: spent });
    return account;
  }

  function enter(into: Map<string, LimiterAccount>, account: LimiterAccount, limits: AppLimits): LimiterAccount {
    leaving.delete(limits.id);
    account.leaving = false;
    account.limits = limits;
    into.set(limits.id, account);
    return account;
  }

  function leave(from: Map<string, LimiterAccount>, account: LimiterAccount): void {
    from.delete(account.limits.id);
    leaving.set(account.limits.id, account);
  }

  /** Applies new apps and limits. Returns the accounts that are no longer configured. */
  function replace(next: AppLimits[]): LimiterAccount[] {
    const kept = new Set(next.map(({ id }) => id));
    const removed = [...apps.values()].filter(({ limits }) => !kept.has(limits.id));
    for (const account of removed) leave(apps, account);
    for (const limits of next) {
      enter(apps, apps.get(limits.id) ?? leaving.get(limits.id) ?? createApp(limits), limits);
    }
    return removed;
  }

  return {
    /** The configured apps. Requests cannot name other accounts. */
    apps: apps as ReadonlyMap<string, LimiterAccount>,

    /** The account of a finished exchange. An app that has left returns until the exchange is reported. */
    owner(id: string): LimiterAccount | undefined {
      const account = apps.get(id) ?? leaving.get(id);
      if (account !== undefined) return account;
      const gone = departed.get(id);
      if (gone === undefined) return undefined;
      const back = createApp(gone.limits);
      back.leaving = true;
      leaving.set(id, back);
      return back;
    },

    find: (id: string): LimiterAccount | undefined => apps.get(id) ?? descriptorLimits.get(id),

    inForce: (node: LimiterNode): LimiterAccount[] =>
      [...apps.values(), ...descriptorLimits.values()].filter((one) => one.node === node),

    all: (node: LimiterNode): LimiterAccount[] =>
      [...apps.values(), ...descriptorLimits.values(), ...leaving.values()].filter((one) => one.node === node),

    /** Adds a descriptor limit, or brings it back with what it held. An existing one gets the new limits. */
    enterLimit(limits: AppLimits, isValue: boolean): LimiterAccount {
      const { id } = limits;
      const account = descriptorLimits.get(id) ?? leaving.get(id) ?? create(limits);
      if (account.isValue !== isValue) valueCount += isValue ? 1 : -1;
      account.isValue = isValue;
      return enter(descriptorLimits, account, limits);
    },

    /** A limit that is in use, or leaving: then it returns until everything is reported. */
    limitOwner: (id: string): LimiterAccount | undefined => descriptorLimits.get(id) ?? leaving.get(id),

    leaveLimit: (account: LimiterAccount) => leave(descriptorLimits, account),

    /** Limits of values that requests choose, including those that are leaving. */
    valueCount: () => valueCount,

    leavingValueCount: () => [...leaving.values()].filter(({ isValue }) => isValue).length,

    replace,

    /** Everything about a leaving account has been reported. */
    forget(account: LimiterAccount): void {
      const { limits, learned, isValue, lease } = account;
      const { granted, returned } = lease;
      // It was used after it was forgotten: there may be a newer account.
      if (leaving.get(limits.id) !== account) return;
      leaving.delete(limits.id);
      if (isValue) valueCount--;
      if (limits.fillSeconds !== undefined) return;
      if (granted > 0 || Object.keys(learned).length > 0) departed.set(limits.id, { limits, granted, returned });
    },

    /** The counters of this node restart at zero on a shard. */
    startEpoch(node: LimiterNode): void {
      for (const [id, gone] of departed) {
        if (nodeOf(id) === node) Object.assign(gone, { granted: 0, returned: 0 });
      }
    },
  };
}

/** The balance of a lease in one process. A class: there is one per app, and closures need several times the memory. */
class NodeCell implements BalanceCell {
  value = 0;

  add(delta: number): number {
    this.value += delta;
    return this.value;
  }

  get(): number {
    return this.value;
  }

  take(cost: number): number {
    if (cost <= 0) return Math.max(this.value, 0);
    if (this.value < cost) return MISS;
    this.value -= cost;
    return this.value;
  }
}
