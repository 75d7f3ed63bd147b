/** Live data for viewers of the dashboard, on a driven clock. */
import { expect, it } from "vitest";
import { createFeed } from "../../../../src/service/dashboard/feed.js";

/** Timers run when the test says so. */
function bench() {
  let now = 0;
  let timers: { at: number; work: () => void }[] = [];
  const collected: string[] = [];
  let fail = false;
  const clock = {
    now: () => now,
    after(ms: number, work: () => void) {
      const timer = { at: now + ms, work };
      timers.push(timer);
      return () => {
        timers = timers.filter((one) => one !== timer);
      };
    },
  };
  const feed = createFeed({
    clock,
    async collect(view) {
      collected.push(view);
      if (fail) throw new Error("no data");
      return { view, number: collected.length };
    },
  });
  return {
    feed,
    collected,
    failing: (value: boolean) => {
      fail = value;
    },
    timers: () => timers.length,
    async pass(ms: number) {
      now += ms;
      const due = timers.filter(({ at }) => at <= now);
      timers = timers.filter(({ at }) => at > now);
      for (const { work } of due) work();
      for (let i = 0; i < 20; i++) await Promise.resolve();
    },
  };
}

const watching = { isAllowed: () => true };
const parsed = (text: string | undefined) => JSON.parse(/^data: (.*)$/m.exec(text ?? "")?.[1] ?? "null") as unknown;

it("collects nothing while nobody watches", async () => {
  const { feed, collected, timers, pass } = bench();
  await pass(10_000);
  expect(timers()).toBe(0);
  const events = feed.watch({ ...watching, view: "overview", first: { points: [] } })!;
  expect((await events.next()).value).toBe('event: history\ndata: {"points":[]}\n\n');
  await pass(0);
  expect(parsed((await events.next()).value)).toEqual({ view: "overview", number: 1 });
  const next = events.return(undefined);
  await pass(1_000);
  await next;
  expect(feed.viewers()).toBe(0);
  await pass(10_000);
  expect(timers()).toBe(0);
  expect(collected.length).toBeLessThanOrEqual(2);
});

it("collects once per second for all viewers of the same view", async () => {
  const { feed, collected, pass } = bench();
  const all = ["overview", "overview", "nodes"].map((view) => feed.watch({ ...watching, view })!);
  for (const events of all) await events.next();
  await pass(0);
  expect(collected.sort()).toEqual(["nodes", "overview"]);
  const messages = await Promise.all(all.map((events) => events.next()));
  expect(messages[0]!.value).toBe(messages[1]!.value);
  await pass(1_000);
  expect(collected).toHaveLength(4);
});

it("keeps only the newest message for a slow viewer", async () => {
  const { feed, pass } = bench();
  const events = feed.watch({ ...watching, view: "overview" })!;
  await events.next();
  for (let i = 0; i < 5; i++) await pass(1_000);
  expect(parsed((await events.next()).value)).toMatchObject({ number: 5 });
});

it("tells viewers that the data could not be collected, and goes on", async () => {
  const { feed, failing, pass } = bench();
  const events = feed.watch({ ...watching, view: "overview" })!;
  await events.next();
  failing(true);
  await pass(0);
  expect((await events.next()).value).toBe('event: failed\ndata: {"reason":"no data"}\n\n');
  failing(false);
  await pass(1_000);
  expect((await events.next()).value).toMatch(/^event: state/);
});

it("ends when the viewer may not watch any more", async () => {
  const { feed, pass } = bench();
  let allowed = true;
  const events = feed.watch({ view: "overview", isAllowed: () => allowed })!;
  await events.next();
  allowed = false;
  await pass(0);
  expect((await events.next()).value).toMatch(/^event: ended/);
  expect((await events.next()).done).toBe(true);
  expect(feed.viewers()).toBe(0);
});

it("has at most a hundred viewers", async () => {
  const { feed } = bench();
  for (let i = 0; i < 100; i++) await feed.watch({ ...watching, view: "overview" })!.next();
  expect(feed.watch({ ...watching, view: "overview" })).toBeUndefined();
});

it("does not count a viewer whose connection never starts", async () => {
  const { feed } = bench();
  await feed.watch({ ...watching, view: "overview" })!.return(undefined);
  expect(feed.viewers()).toBe(0);
});

it("ends all streams when it is closed", async () => {
  const { feed } = bench();
  const events = feed.watch({ ...watching, view: "overview" })!;
  await events.next();
  const next = events.next();
  feed.close();
  expect((await next).done).toBe(true);
});
