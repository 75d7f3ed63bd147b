/** The lease commands of the conformance program: one lease and one allowance, with plain counters. */
import { type AllowanceUse, newAllowanceUse, takeAllowance } from "../../src/core/allowance.js";
import {
  applyReply,
  beginEpoch,
  type Cell,
  cutLease,
  defaultLeaseOptions,
  isRefused,
  isReportDue,
  type Lease,
  type LeaseSituation,
  needsRefill,
  newLease,
  planSync,
  returnAll,
  spentTokens,
  takeTokens,
  takeUncovered,
} from "../../src/core/lease.js";
import { exact, numberAt, textAt, yesNo } from "./core-text.js";

export interface LeaseWorld {
  lease: Lease;
  cell: Cell;
  allowance: AllowanceUse;
}

function plainCell(): Cell {
  let value = 0;
  return {
    add(delta: number): number {
      value = value + delta;
      return value;
    },
    get(): number {
      return value;
    },
  };
}

export function newLeaseWorld(): LeaseWorld {
  return { lease: newLease(defaultLeaseOptions, 0), cell: plainCell(), allowance: newAllowanceUse() };
}

function leaseText(world: LeaseWorld): string {
  const lease = world.lease;
  const counters = `${exact(lease.granted)} ${exact(lease.returned)} ${exact(spentTokens(lease, world.cell))}`;
  const aims = `${exact(lease.target)} ${exact(lease.spendRate)} ${exact(lease.activeAt)}`;
  const refusal = `${lease.refusedCode} ${exact(lease.refusedUntil)} ${exact(lease.refusedCost)}`;
  return `${exact(world.cell.get())} ${counters} ${aims} ${refusal}`;
}

/** The words from position `from` on: level, and plentiful as yes or no. At odd times it is a value. */
function situationAt(words: string[], from: number, now: number): LeaseSituation {
  const isValue = now - Math.floor(now / 2) * 2 === 1;
  return {
    options: defaultLeaseOptions,
    level: numberAt(words, from),
    plentiful: textAt(words, from + 1) === "yes",
    gain: 500,
    capacity: 1000,
    isLimit: isValue,
    now,
  };
}

/** Runs a lease command. The result is empty if the command is not a lease command. */
export function leaseCommand(world: LeaseWorld, words: string[]): string {
  const command = words[0];
  const lease = world.lease;
  const cell = world.cell;
  const first = numberAt(words, 1);
  const second = numberAt(words, 2);
  if (command === "lease-take") return `${exact(takeTokens(cell, first))} ${exact(cell.get())}`;
  if (command === "lease-uncovered") return exact(takeUncovered(cell, first));
  if (command === "lease-allowance") {
    const taken = takeAllowance(world.allowance, { rate: 30, burst: 100 }, first, second);
    return `${yesNo(taken)} ${exact(world.allowance.used.get())} ${exact(world.allowance.refilledAt.get())}`;
  }
  if (command === "lease-look") {
    const refused = yesNo(isRefused(lease, first, second));
    const due = yesNo(isReportDue(lease, cell, situationAt(words, 3, second)));
    return `${refused} ${due} ${yesNo(needsRefill(lease, cell, defaultLeaseOptions))}`;
  }
  if (command === "lease-plan") {
    const demand = { nextCost: second, waitingCost: numberAt(words, 3) };
    const message = planSync(lease, cell, demand, situationAt(words, 4, first));
    const counters = `${exact(message.granted)} ${exact(message.spent)} ${exact(message.returned)}`;
    return `${counters} ${exact(message.need)} ${exact(message.want)} ${leaseText(world)}`;
  }
  if (command === "lease-settle") cell.add(0 - first);
  else if (command === "lease-cut") cutLease(lease, cell, first);
  else if (command === "lease-return") returnAll(lease, cell);
  else if (command === "lease-epoch") beginEpoch(lease, cell, second, first);
  else if (command === "lease-reply") {
    // The argument is relative to the tokens granted so far. It is negative for a reply that arrives late.
    const granted = lease.granted + second;
    applyReply(
      lease,
      cell,
      { granted, code: textAt(words, 3), retryAfterMs: numberAt(words, 4), refusedCost: numberAt(words, 5) },
      first,
    );
  } else return "";
  return leaseText(world);
}
