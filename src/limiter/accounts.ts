/** The accounts of a limiter. None is dropped before the store has the final report about it. */
import { DEFAULT_APP } from "../core/identity.js";
import type { LeaseOptions } from "../core/lease.js";
import type { AppLimits } from "../core/limits.js";
import { type Account, newAccount, type Waiter } from "../engine/account.js";
import type { Decision } from "./decision.js";

/** A request that waits for a sync, as a promise. */
export interface LimiterWaiter extends Waiter {
  /** The app in the request: which account pays for it may change while it waits. */
  requestedApp: string;
  contentLength: number;
  /** When the request arrived. Its deadline depends on this, also if it is decided again. */
  startedMs: number;
  /** The caller stated the cost; otherwise it is estimated again under new limits. */
  fixedCost: boolean;
  /** Called when the outcome is decided. */
  wake(): void;
  /** Answers the request with a decision that was made elsewhere. */
  resolve(decision: Decision | Promise<Decision>): void;
}

export type LimiterAccount = Account<LimiterWaiter>;

export interface AccountsOptions {
  apps: AppLimits[];
  unknownApps: "default" | "reject";
  lease: LeaseOptions;
}

/** An app that has left: its counters in the store, and the limits under which its last exchanges are settled. */
interface DepartedApp {
  limits: AppLimits;
  granted: number;
  returned: number;
}

export type Accounts = ReturnType<typeof createAccounts>;

export function createAccounts(options: AccountsOptions, now: () => number) {
  let lease = options.lease;
  const apps = new Map<string, LimiterAccount>();
  let fallback: LimiterAccount | undefined;
  /** Descriptor limits. Requests cannot name them: `payer` does not look here. */
  const descriptorLimits = new Map<string, LimiterAccount>();
  const leaving = new Map<string, LimiterAccount>();
  /** Grows with used apps that an operator removes, not with requests. */
  const departed = new Map<string, DepartedApp>();
  replace(options);

  function create(limits: AppLimits): LimiterAccount {
    return newAccount(limits, lease, now()) as LimiterAccount;
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
    Object.assign(account.sync, { reportedSpent: spent, reportedReturned: returned });
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
  function replace(next: AccountsOptions): LimiterAccount[] {
    lease = next.lease;
    const kept = new Set(next.apps.map(({ id }) => id));
    const removed = [...apps.values()].filter(({ limits }) => !kept.has(limits.id));
    for (const account of removed) leave(apps, account);
    for (const limits of next.apps) {
      enter(apps, apps.get(limits.id) ?? leaving.get(limits.id) ?? createApp(limits), limits);
    }
    fallback = next.unknownApps === "reject" ? undefined : apps.get(DEFAULT_APP);
    return removed;
  }

  return {
    /** The account that pays for requests of this app; undefined if they are refused. */
    payer: (id: string): LimiterAccount | undefined => apps.get(id) ?? fallback,

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

    configured: () => apps.values(),

    inForce: (): LimiterAccount[] => [...apps.values(), ...descriptorLimits.values()],

    all: (): LimiterAccount[] => [...apps.values(), ...descriptorLimits.values(), ...leaving.values()],

    /** Adds a descriptor limit, or brings it back with what it held. An existing one gets the new limits. */
    enterLimit(limits: AppLimits): LimiterAccount {
      const { id } = limits;
      return enter(descriptorLimits, descriptorLimits.get(id) ?? leaving.get(id) ?? create(limits), limits);
    },

    leaveLimit: (account: LimiterAccount) => leave(descriptorLimits, account),

    /** Descriptor limits and everything that is leaving. */
    limitCount: () => descriptorLimits.size + leaving.size,

    replace,

    /** Everything about a leaving account has been reported. */
    forget({ limits, learned, lease: { granted, returned } }: LimiterAccount): void {
      leaving.delete(limits.id);
      if (limits.fillSeconds !== undefined) return;
      if (granted > 0 || Object.keys(learned).length > 0) departed.set(limits.id, { limits, granted, returned });
    },

    /** The store's counters of this node restart at zero. */
    startEpoch(): void {
      for (const gone of departed.values()) Object.assign(gone, { granted: 0, returned: 0 });
    },
  };
}
