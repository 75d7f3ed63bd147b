/** The apps of a limiter through changes of its configuration: none is lost before the store knows all of it. */

import { DEFAULT_APP } from "../core/identity.js";
import type { LeaseOptions } from "../core/lease.js";
import type { AppLimits } from "../core/limits.js";
import { type AppLease, type Counters, newAppLease } from "./app-lease.js";

export interface RegisterSettings {
  apps: AppLimits[];
  unknownApps: "default" | "reject";
  lease: LeaseOptions;
}

/** An app that has left: what the store has on record, and the limits under which its last exchanges settle. */
interface Departed extends Counters {
  policy: AppLimits;
}

export type AppRegister = ReturnType<typeof createAppRegister>;

export function createAppRegister(settings: RegisterSettings, now: () => number) {
  let lease = settings.lease;
  const apps = new Map<string, AppLease>();
  let fallback: AppLease | undefined;
  /** Limits that come and go with what clients ask for. No request can name one: `payer` does not look here. */
  const passing = new Map<string, AppLease>();
  const leaving = new Map<string, AppLease>();
  /** Only of apps that were used: it grows with those that an operator removes, not with what clients send. */
  const departed = new Map<string, Departed>();
  replace(settings);

  function begin(policy: AppLimits): AppLease {
    const before = departed.get(policy.id);
    departed.delete(policy.id);
    return newAppLease(policy, lease, now(), before);
  }

  function admit(policy: AppLimits): void {
    const app = apps.get(policy.id) ?? leaving.get(policy.id) ?? begin(policy);
    leaving.delete(policy.id);
    app.leaving = false;
    app.policy = policy;
    apps.set(policy.id, app);
  }

  /** Puts other apps, or other limits, in force. Answers those that are configured no more. */
  function replace(next: RegisterSettings): AppLease[] {
    lease = next.lease;
    const kept = new Set(next.apps.map(({ id }) => id));
    const removed = [...apps.values()].filter(({ policy }) => !kept.has(policy.id));
    for (const app of removed) {
      apps.delete(app.policy.id);
      app.leaving = true;
      leaving.set(app.policy.id, app);
    }
    for (const policy of next.apps) admit(policy);
    fallback = next.unknownApps === "reject" ? undefined : apps.get(DEFAULT_APP);
    return removed;
  }

  return {
    /** Who pays for requests of this id; undefined where they are refused. */
    payer: (id: string): AppLease | undefined => apps.get(id) ?? fallback,

    /** Whose exchange has ended: an app that is leaving, or has left, comes back for as long as it takes to report it. */
    owner(id: string): AppLease | undefined {
      const app = apps.get(id) ?? leaving.get(id);
      if (app !== undefined) return app;
      const gone = departed.get(id);
      if (gone === undefined) return undefined;
      const back = begin(gone.policy);
      back.leaving = true;
      leaving.set(id, back);
      return back;
    },

    configured: () => apps.values(),

    /** All that tokens may be taken of. */
    *inForce(): Iterable<AppLease> {
      yield* apps.values();
      yield* passing.values();
    },

    /** A limit begins, or comes back with all it had. One that is there gets these numbers. */
    enter(policy: AppLimits): AppLease {
      const limit = passing.get(policy.id) ?? leaving.get(policy.id) ?? newAppLease(policy, lease, now());
      leaving.delete(policy.id);
      limit.leaving = false;
      limit.policy = policy;
      passing.set(policy.id, limit);
      return limit;
    },

    /** It stays until the store knows all of it, and has forgotten it. */
    leave(limit: AppLease): void {
      passing.delete(limit.policy.id);
      limit.leaving = true;
      leaving.set(limit.policy.id, limit);
    },

    /** Limits that are held here, those on their way out included; and with those the apps that are leaving. */
    passingCount: () => passing.size + leaving.size,

    /** All that the store may still have to hear of. */
    *everyone(): Iterable<AppLease> {
      yield* apps.values();
      yield* passing.values();
      yield* leaving.values();
    },

    replace,

    /** All has been said about an app that was leaving. */
    forget({ policy, learned, lease: { granted, returned } }: AppLease): void {
      leaving.delete(policy.id);
      if (policy.fillSeconds !== undefined) return;
      if (learned.size > 0 || granted > 0) departed.set(policy.id, { policy, granted, returned });
    },

    /** The store's record of this node begins anew. */
    newEpoch(): void {
      for (const gone of departed.values()) {
        gone.granted = 0;
        gone.returned = 0;
      }
    },
  };
}
