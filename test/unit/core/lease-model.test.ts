/** The lease under any history, retry and interleaving: no token appears from nowhere, none is lost. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { OK, QUOTA_EXHAUSTED } from "../../../src/core/codes.js";
import {
  applyReply,
  beginEpoch,
  type Cell,
  cutLease,
  defaultLeaseOptions,
  type Lease,
  MISS,
  newLease,
  planSync,
  returnAll,
  spentTokens,
  takeTokens,
  takeUncovered,
} from "../../../src/core/lease.js";
import { leased, NOBODY, plainCell, sharedCell, situation } from "./lease-cells.js";

const policy = defaultLeaseOptions;
const amount = fc.integer({ min: 0, max: 300 });
const pause = fc.oneof(fc.integer({ min: -500, max: 2000 }), fc.constantFrom(0, 50, 90_000));

/** What has happened so far, counted apart from the lease. */
interface Model {
  granted: number;
  returned: number;
  spent: number;
}
interface Run {
  lease: Lease;
  cell: Cell;
  model: Model;
  now: number;
  lastReported: number;
}
type Step = (run: Run) => void;

const balanceOf = ({ granted, returned, spent }: Model) => granted - returned - spent;

const step: fc.Arbitrary<Step> = fc.oneof(
  amount.map(
    (cost): Step =>
      ({ cell, model }) => {
        const left = takeTokens(cell, cost);
        const pays = cost === 0 || balanceOf(model) >= cost;
        if (pays) model.spent += cost;
        expect(left).toBe(pays ? Math.max(balanceOf(model), 0) : MISS);
      },
  ),
  amount.map(
    (cost): Step =>
      ({ cell, model }) => {
        takeUncovered(cell, cost);
        model.spent += cost;
      },
  ),
  fc.integer({ min: -100, max: 100 }).map(
    (difference): Step =>
      ({ cell, model }) => {
        cell.add(-difference);
        model.spent += difference;
      },
  ),
  fc.tuple(amount, fc.constantFrom(OK, QUOTA_EXHAUSTED)).map(
    ([added, code]): Step =>
      (run) => {
        run.model.granted += added;
        applyReply(
          run.lease,
          run.cell,
          { granted: run.model.granted, code, retryAfterMs: 100, refusedCost: 1 },
          run.now,
        );
      },
  ),
  amount.map(
    (late): Step =>
      ({ lease, cell, model, now }) => {
        applyReply(
          lease,
          cell,
          { granted: model.granted - late, code: QUOTA_EXHAUSTED, retryAfterMs: 100, refusedCost: 1 },
          now,
        );
      },
  ),
  fc.tuple(pause, fc.oneof(amount, fc.constant(0)), fc.nat(3), fc.boolean()).map(
    ([pauseMs, waiting, level, plentiful]): Step =>
      (run) => {
        run.now += pauseMs;
        const demand = { nextCost: waiting, waitingCost: waiting };
        const message = planSync(run.lease, run.cell, demand, situation(run.now, { level, plentiful }));
        run.model.returned = message.returned;
        run.lastReported = message.spent;
        expect(message.granted).toBe(run.model.granted);
        expect(message.spent).toBe(Math.max(run.model.spent, 0));
        expect(message.want).toBeGreaterThanOrEqual(message.need);
        expect(message.need).toBe(Math.max(waiting - Math.max(balanceOf(run.model), 0), 0));
        if (waiting === 0) expect(balanceOf(run.model)).toBeLessThanOrEqual(run.lease.target * (plentiful ? 2 : 1));
      },
  ),
  fc.constantFrom(1, 0.5, 0.1, 0).map(
    (ratio): Step =>
      ({ lease, cell, model }) => {
        const before = balanceOf(model);
        cutLease(lease, cell, ratio);
        model.returned = lease.returned;
        expect(cell.get()).toBe(before > 0 ? Math.floor(before * ratio) : before);
      },
  ),
  fc.constant<Step>(({ lease, cell, model }) => {
    returnAll(lease, cell);
    model.returned = lease.returned;
  }),
  fc.constant<Step>((run) => {
    beginEpoch(run.lease, run.cell, run.lastReported, run.now);
    run.model = { granted: 0, returned: 0, spent: run.model.spent - run.lastReported };
    run.lastReported = 0;
  }),
);

describe("the balance", () => {
  it("is granted − returned − spent after any history of takes, refunds, replies, cuts and epochs", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const model: Model = { granted: 0, returned: 0, spent: 0 };
        const run: Run = { lease: newLease(policy, 5000), cell: plainCell(0), model, now: 5000, lastReported: 0 };
        for (const apply of steps) {
          apply(run);
          expect(run.cell.get()).toBe(balanceOf(run.model));
          expect(spentTokens(run.lease, run.cell)).toBe(run.model.spent);
          expect(run.lease.target).toBeGreaterThanOrEqual(0);
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("replies of the store", () => {
  it("may arrive twice and in any order: the final balance is the same", () => {
    const answers = fc.array(amount, { minLength: 1, maxLength: 8 }).chain((added) => {
      let granted = 0;
      const cumulative = added.map((tokens) => {
        granted += tokens;
        return granted;
      });
      const shuffled = fc.shuffledSubarray([...cumulative, ...cumulative], { minLength: cumulative.length * 2 });
      return fc.record({ cumulative: fc.constant(cumulative), shuffled });
    });
    fc.assert(
      fc.property(answers, ({ cumulative, shuffled }) => {
        const [inOrder, inDisorder] = [cumulative, shuffled].map((replies) => {
          const lease = newLease(policy, 0);
          const cell = plainCell(0);
          for (const granted of replies)
            applyReply(lease, cell, { granted, code: OK, retryAfterMs: 0, refusedCost: 0 }, 0);
          // The target follows the last reply that was not outdated; the next message sets it anew.
          return [{ ...lease, target: 0 }, cell.get()];
        });
        expect(inDisorder).toEqual(inOrder);
        expect(inOrder?.[1]).toBe(Math.max(...cumulative));
      }),
    );
  });
});

describe("while other workers take tokens concurrently", () => {
  const take = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 300 }));
  const scene = fc.record({ balance: fc.nat(500), takes: fc.array(take, { maxLength: 12 }) });

  it("no token is taken twice, and a miss takes none", () => {
    fc.assert(
      fc.property(scene, fc.array(fc.integer({ min: 1, max: 300 }), { maxLength: 6 }), ({ balance, takes }, costs) => {
        const cell = sharedCell(balance, takes);
        let own = 0;
        for (const cost of costs) if (takeTokens(cell, cost) !== MISS) own += cost;
        const left = plainLook(cell);
        expect(own + cell.takenByOthers() + left).toBe(balance);
        expect(left).toBeGreaterThanOrEqual(0);
      }),
      { numRuns: 500 },
    );
  });

  it("a return neither takes their tokens nor loses any", () => {
    fc.assert(
      fc.property(scene, fc.constantFrom(0, 0.1, 0.5, 1), ({ balance, takes }, ratio) => {
        const cell = sharedCell(balance, takes);
        const lease = newLease(policy, 0);
        if (ratio === 0) returnAll(lease, cell);
        else cutLease(lease, cell, ratio);
        const left = plainLook(cell);
        expect(lease.returned + cell.takenByOthers() + left).toBe(balance);
        expect(lease.returned).toBeGreaterThanOrEqual(0);
        expect(left).toBeGreaterThanOrEqual(0);
        expect(lease.returned).toBeLessThanOrEqual(balance - Math.floor((balance - cell.takenByOthers()) * ratio));
      }),
      { numRuns: 500 },
    );
  });

  it("a cut leaves the required tokens, however many they took of the rest", () => {
    // The cut looks twice and then takes; before it takes, another worker is faster.
    const cell = sharedCell(100, [0, 0, 30]);
    const lease = newLease(policy, 0);
    cutLease(lease, cell, 0.5);
    expect([lease.returned, cell.takenByOthers(), cell.get()]).toEqual([20, 30, 50]);
  });

  it.each([
    ["an idle lease", {}],
    ["a lease of scarce tokens", { plentiful: false }],
  ])("%s returns only what they left, and reports what they spent", (_name, given) => {
    fc.assert(
      fc.property(scene, ({ balance, takes }) => {
        const { lease } = leased(0, balance);
        const cell = sharedCell(balance, takes);
        const message = planSync(lease, cell, NOBODY, situation(policy.idleMs, given));
        expect(message.spent).toBe(cell.takenByOthers());
        const left = plainLook(cell);
        expect(message.returned + cell.takenByOthers() + left).toBe(balance);
      }),
    );
  });

  it("a new epoch charges everything that they spent", () => {
    fc.assert(
      fc.property(scene, ({ balance, takes }) => {
        const { lease } = leased(0, balance);
        const cell = sharedCell(balance, takes);
        beginEpoch(lease, cell, 0, 10);
        const left = plainLook(cell);
        expect(left + cell.takenByOthers()).toBe(0);
      }),
    );
  });
});

/** The balance once all others have had their turn. */
function plainLook(cell: Cell): number {
  let value = cell.get();
  for (let i = 0; i < 50; i++) value = cell.get();
  return value;
}
