/** What connections tell the metrics: whoever holds slots keeps a tally, and adds who is where when it is asked. */
import type { SlotKeeperObserver } from "../../slots/slot-keeper-options.js";
import {
  CONNECTIONS_ACQUIRE,
  CONNECTIONS_KEY,
  CONNECTIONS_LOST,
  CONNECTIONS_RECLAIMED,
  CONNECTIONS_REFUSED,
  CONNECTIONS_WIDTH,
  type Counters,
  listOf,
} from "./counters.js";
import { callBoundsSeconds, observe } from "./histogram.js";
import { connectionReasons } from "./labels.js";
import type { PodGauge, ProxyGauge } from "./metrics-report.js";

export interface ConnectionNumbers {
  /** Those of the configuration, and those that have left it but still have connections. */
  pods: PodGauge[];
  /** Whoever holds connections through this process. */
  proxies: ProxyGauge[];
  tally: ConnectionTally;
}

export interface ConnectionTally {
  /** A slot was asked for, and taken or refused, in this time. */
  acquired(seconds: number): void;
  /** @param reason a code of slots, or "store_unavailable" */
  refused(reason: string): void;
  /** Leases that were gone when they should have been renewed. */
  lost(leases: number): void;
  /** Leases that were taken again after that. */
  reclaimed(leases: number): void;
  exportTo(counters: Counters): void;
}

export function createConnectionTally(): ConnectionTally {
  const numbers = new Float64Array(CONNECTIONS_WIDTH);
  const others = connectionReasons.length - 1;
  return {
    acquired: (seconds) => observe(numbers, CONNECTIONS_ACQUIRE, callBoundsSeconds, seconds),
    refused(reason) {
      const index = connectionReasons.indexOf(reason);
      numbers[CONNECTIONS_REFUSED + (index < 0 ? others : index)]!++;
    },
    lost(leases) {
      numbers[CONNECTIONS_LOST]! += leases;
    },
    reclaimed(leases) {
      numbers[CONNECTIONS_RECLAIMED]! += leases;
    },
    exportTo(counters) {
      counters[CONNECTIONS_KEY] = listOf(numbers);
    },
  };
}

/** Tells the tally what happens to the connections of a gateway. */
export function tallyKeeper(tally: ConnectionTally): SlotKeeperObserver {
  return {
    decided({ allowed, code, milliseconds }) {
      tally.acquired(milliseconds / 1000);
      if (!allowed) tally.refused(code);
    },
    lost: tally.lost,
    reclaimed: () => tally.reclaimed(1),
  };
}
