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
  const events = feed.watch({ ...watching, view: "overview", first: { points: [] } })!.events;
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
  const all = ["overview", "overview", "nodes"].map((view) => feed.watch({ ...watching, view })!.events);
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
  const events = feed.watch({ ...watching, view: "overview" })!.events;
  await events.next();
  for (let i = 0; i < 5; i++) await pass(1_000);
  expect(parsed((await events.next()).value)).toMatchObject({ number: 5 });
});

it("tells viewers that the data could not be collected, and goes on", async () => {
  const { feed, failing, pass } = bench();
  const events = feed.watch({ ...watching, view: "overview" })!.events;
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
  const events = feed.watch({ view: "overview", isAllowed: () => allowed })!.events;
  await events.next();
  allowed = false;
  await pass(0);
  expect((await events.next()).value).toMatch(/^event: ended/);
  expect((await events.next()).done).toBe(true);
  expect(feed.viewers()).toBe(0);
});

it("has at most a hundred viewers", async () => {
  const { feed } = bench();
  const operator = (number: number) => ({ ...watching, view: "overview", owner: `o${number}`, isOperator: true });
  for (let i = 0; i < 100; i++) await feed.watch(operator(i))!.events.next();
  expect(feed.watch(operator(100))).toBeUndefined();
});

it("does not count a viewer whose connection never starts", async () => {
  const { feed } = bench();
  await feed.watch({ ...watching, view: "overview" })!.events.return(undefined);
  expect(feed.viewers()).toBe(0);
});

it("ends all streams when it is closed", async () => {
  const { feed } = bench();
  const events = feed.watch({ ...watching, view: "overview" })!.events;
  await events.next();
  const next = events.next();
  feed.close();
  expect((await next).done).toBe(true);
});

it("one viewer takes a few feeds and views, all viewers not those of operators, and one operator not those of all", async () => {
  const { feed } = bench();
  const open = async (options: Partial<Parameters<typeof feed.watch>[0]>) => {
    const watched = feed.watch({ ...watching, view: "overview", ...options });
    await watched?.events.next();
    return watched !== undefined;
  };
  const count = async (owner: string, isOperator: boolean) => {
    let opened = 0;
    while (await open({ owner, isOperator })) opened++;
    return opened;
  };
  for (let i = 0; i < 7; i++) expect(await open({ owner: "v0", view: `app/${i}` })).toBe(true);
  expect(await open({ owner: "v0", view: "overview" })).toBe(true);
  expect(await open({ owner: "v0", view: "app/8" })).toBe(false);
  expect(await count("v0", false)).toBe(12);
  expect(await count("v1", false)).toBe(20);
  expect(await count("v2", false)).toBe(20);
  expect(await count("v3", false)).toBe(0);
  expect(await count("o1", true)).toBe(40);
  expect(feed.viewers()).toBe(100);
});

it("viewers cannot take all views", async () => {
  const { feed } = bench();
  for (let i = 0; i < 100; i++) {
    await feed.watch({ ...watching, owner: `v${i % 10}`, view: `app/${i}` })?.events.next();
  }
  expect(feed.viewers()).toBe(16);
  expect(feed.watch({ ...watching, owner: "o", isOperator: true, view: "nodes" })).toBeDefined();
});

it("a viewer that takes no messages is gone after 30 s", async () => {
  const { feed, pass } = bench();
  const [reads, stays] = [feed.watch({ ...watching, view: "nodes" })!, feed.watch({ ...watching, view: "nodes" })!];
  await reads.events.next();
  await stays.events.next();
  for (let i = 0; i < 40; i++) {
    await pass(1_000);
    await reads.events.next();
  }
  expect(stays.gone.aborted).toBe(true);
  expect(reads.gone.aborted).toBe(false);
});
