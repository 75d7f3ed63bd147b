/** The traffic of apps over the last minutes, in bounded memory. */
import { expect, it } from "vitest";
import { createAppHistory } from "../../../../src/service/dashboard/app-history.js";

const totals = (apps: Record<string, [requests: number, refused?: number, dryRunRefused?: number]>) =>
  new Map(
    Object.entries(apps).map(([app, [requests, refused = 0, dryRunRefused = 0]]) => [
      app,
      { requests, refused, dryRunRefused },
    ]),
  );

it("is kept as rates, with refusals and what a dry run admitted apart", () => {
  const history = createAppHistory();
  history.sample(totals({ video: [1_000, 100, 50] }), 0, 100);
  expect(history.of("video")).toEqual([]);
  history.sample(totals({ video: [1_050, 110, 60] }), 5_000, 105);
  history.sample(totals({ video: [1_050, 110, 60] }), 10_000, 110);
  expect(history.of("video")).toEqual([
    { at: 105, requests: 10, refused: 2, dry_run: 2 },
    { at: 110, requests: 0, refused: 0, dry_run: 0 },
  ]);
  expect(history.of("unknown")).toEqual([]);
});

it("of an app whose first requests come later begins with zero, and has no negative rates after a restart", () => {
  const history = createAppHistory();
  history.sample(totals({}), 0, 100);
  history.sample(totals({ video: [50] }), 5_000, 105);
  history.sample(totals({ video: [10] }), 10_000, 110);
  expect(history.of("video").map(({ at, requests }) => [at, requests])).toEqual([
    [105, 10],
    [110, 0],
  ]);
});

it("covers 15 minutes and a bounded number of apps; those idle for longest make room", () => {
  const history = createAppHistory({ apps: 2, points: 3 });
  history.sample(totals({}), 0, 0);
  history.sample(totals({ old: [5], busy: [5] }), 5_000, 5);
  history.sample(totals({ old: [5], busy: [10] }), 10_000, 10);
  history.sample(totals({ old: [5], busy: [15], new: [5] }), 15_000, 15);
  expect(history.of("old")).toEqual([]);
  expect(history.of("new")).toHaveLength(1);
  // All are busy: the ones that are known stay.
  history.sample(totals({ old: [6], busy: [20], new: [10], other: [900] }), 20_000, 20);
  expect(history.of("other")).toEqual([]);
  expect(history.of("busy").map(({ at }) => at)).toEqual([10, 15, 20]);
});
