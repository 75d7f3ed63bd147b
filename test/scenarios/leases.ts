/** Scenarios about leases that every plane must pass: no token is stranded, and the limit holds in every time window. */
import { expect } from "vitest";
import { type Answered, type HttpLoad, passedOf, startHttpLoad } from "../support/http-load.js";
import type { PlaneKind } from "../support/planes.js";
import { pause, waitFor } from "../support/wait-for.js";
import { BY_REQUEST } from "./fixture.js";
import { metered, REQUEST_TIMEOUT_MS, send, statusesWithStore, type Verdict, withFixture } from "./limits.js";

export const LIMIT = 10;

/** The instance of each of twelve requests. */
export const ORDERS: number[][] = [
  [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1],
  [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1],
  [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
  [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1],
  [1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0],
];

/**
 * Two instances with two workers, a limit of ten and almost no refill: of twelve requests the first ten are admitted,
 * whichever instance they reach. So none is refused while another node holds tokens.
 */
export function lastTokens(kind: PlaneKind): Promise<Verdict> {
  const app = (i: number) =>
    `app-${i}: { guaranteed: 0.001, burst: ${LIMIT}, on_store_failure: closed, ${BY_REQUEST} }`;
  const apps = [...ORDERS.map((_, i) => app(i)), app(ORDERS.length)].join(", ");
  return withFixture(kind, { apps }, async ({ plane }) => {
    // On a busy machine the store can seem slow; such a request takes no tokens and is repeated.
    const ask = (instance: number, name: string) =>
      waitFor("a decision with the store", async () => {
        const { status } = await send(plane.instances[instance]!.url, name);
        return status !== 503 && status;
      });
    const expected = Array.from({ length: 12 }, (_, i) => (i < LIMIT ? 200 : 429));
    for (const [i, order] of ORDERS.entries()) {
      const statuses: number[] = [];
      for (const instance of order) statuses.push(await ask(instance, `app-${i}`));
      expect(statuses, `order ${order.join("")}`).toEqual(expected);
    }
    const parallel = await Promise.all(ORDERS[0]!.map((instance) => ask(instance, `app-${ORDERS.length}`)));
    expect(parallel.sort()).toEqual(expected);
    return { statuses: [200, 429], reasons: [] };
  });
}

/**
 * The largest ratio of admitted requests to burst + rate × time, over all windows. Requests that were sent after the start
 * of a window and answered before its end were decided in it.
 */
export function worstWindow(answers: Answered[], rate: number, burst: number): number {
  const passed = passedOf(answers).sort((a, b) => b.sentAt - a.sentAt);
  const ends: number[] = [];
  let worst = 0;
  for (const { sentAt, at } of passed) {
    const place = ends.findIndex((end) => end > at);
    ends.splice(place === -1 ? ends.length : place, 0, at);
    for (const [i, end] of ends.entries()) {
      worst = Math.max(worst, (i + 1) / (burst + (rate * (end - sentAt)) / 1000));
    }
  }
  return worst;
}

/** Three instances, steady load at 80 % of the limit and then a flood: no window has more than burst + rate × time. */
export function steadyThenFlood(kind: PlaneKind, rate: number, burst: number): Promise<Verdict> {
  const options = { apps: metered(rate, burst), instances: 3, workers: 1 };
  return withFixture(kind, options, async ({ plane }) => {
    const load = (perSecond: number) =>
      plane.instances.map(({ url }) => startHttpLoad(url, "metered", perSecond / 3, REQUEST_TIMEOUT_MS));
    const answersOf = async (loads: HttpLoad[]) => (await Promise.all(loads.map((each) => each.stop()))).flat();
    const steady = load(rate * 0.8);
    await pause(4_000);
    const before = await answersOf(steady);
    const flood = load(rate * 4);
    const refused = () => flood.some(({ answers }) => answers.some(({ status }) => status === 429));
    await waitFor("a refusal", refused).finally(() => pause(2_000));
    const answers = await answersOf(flood);
    expect(worstWindow([...before, ...answers], rate, burst)).toBeLessThanOrEqual(1);
    return { statuses: statusesWithStore(answers), reasons: [] };
  });
}

export const leaseScenarios: [name: string, play: (kind: PlaneKind) => Promise<Verdict>][] = [
  ["the last tokens of a limit", lastTokens],
  ["steady load, then a flood: 50 per second, burst 10", (kind) => steadyThenFlood(kind, 50, 10)],
  ["steady load, then a flood: 150 per second, burst 300", (kind) => steadyThenFlood(kind, 150, 300)],
];
