/** Connections to a target are divided among apps and clients; with a driven clock. */
import { describe, expect, it } from "vitest";
import { ConnectionShares, type Place } from "../../../../src/planes/node/upstream/connection-shares.js";
import { createSimulatedClock } from "../../../support/simulated-clock.js";

const QUEUE_MS = 5_000;

function sharesOf(connections: number, maxWaiting = 512) {
  const clock = createSimulatedClock();
  const shares = new ConnectionShares(connections, maxWaiting, clock);
  /** Requests in the order in which they got their connection. */
  const served: string[] = [];
  const expired: { name: string; atMs: number }[] = [];

  const ended: string[] = [];

  function ask(app: string, client: string, { name = `${app} ${client}`, isSlow = false } = {}) {
    let place: Place | undefined;
    const seeker = {
      waitUntilMs: () => clock.now() + QUEUE_MS,
      connectionFree: () => void served.push(name),
      waitedTooLong() {
        expired.push({ name, atMs: clock.now() });
        shares.leave(place!);
      },
      mayYield: () => isSlow,
      yieldConnection() {
        ended.push(name);
        shares.leave(place!);
      },
    };
    place = shares.enter(app, client, seeker);
    if (place !== undefined && place.untilMs === undefined) served.push(name);
    return { name, place, end: () => place !== undefined && shares.leave(place) };
  }

  /** Asks until a request has to wait; returns how many connections it got. */
  function grab(app: string, client: string, { most = 100_000, isSlow = false } = {}): number {
    for (let held = 0; held < most; held++) {
      const { place } = ask(app, client, { isSlow });
      if (place?.untilMs === undefined) continue;
      shares.leave(place);
      return held;
    }
    return most;
  }

  return { clock, shares, served, expired, ended, ask, grab };
}

describe("free connections", () => {
  it("go to anybody, but one client and one app leave some", () => {
    expect(sharesOf(512).grab("a", "1.1.1.1")).toBeGreaterThan(200);
    expect(sharesOf(512).grab("a", "1.1.1.1")).toBeLessThanOrEqual(256);
    // An app whose clients are unknown, or of many clients.
    expect(sharesOf(512).grab("a", "")).toBe(410);
    expect(sharesOf(1).grab("a", "1.1.1.1")).toBe(1);
  });

  it("are left for other apps, however many clients the greedy app has", () => {
    for (const clients of [1, 2, 4, 16, 100, 1_000]) {
      const { grab } = sharesOf(512);
      for (let n = 0; n < clients; n++) grab("greedy", `client ${n}`, { most: 256 });
      expect(grab("quiet", "newcomer", { most: 30 }), `${clients} clients`).toBe(30);
    }
  });

  it("are left for other clients of an app, and when one client uses many apps", () => {
    const oneApp = sharesOf(512);
    for (const client of ["1", "2"]) expect(oneApp.grab("app", client, { most: 256 })).toBeGreaterThan(100);
    expect(oneApp.grab("app", "newcomer", { most: 20 })).toBe(20);
    const oneClient = sharesOf(512);
    for (let n = 0; n < 50; n++) oneClient.grab(`app ${n}`, "one client");
    expect(oneClient.grab("quiet", "newcomer", { most: 100 })).toBe(100);
  });

  it("are left in small pools, too", () => {
    for (const connections of [6, 8, 16, 32]) {
      const { grab } = sharesOf(connections);
      for (let n = 0; n < 20; n++) grab("greedy", `client ${n}`);
      expect(grab("quiet", "newcomer", { most: 1 }), `${connections} connections`).toBe(1);
    }
  });
});

describe("the queue", () => {
  it("is served in turns of apps, then of clients, whoever came first", () => {
    const { ask, served } = sharesOf(1);
    const asked = [ask("busy", "1", { name: "first" })];
    for (const name of ["busy 1 #1", "busy 1 #2", "busy 1 #3"]) asked.push(ask("busy", "1", { name }));
    asked.push(ask("busy", "2", { name: "busy 2" }), ask("quiet", "3", { name: "quiet 3" }));
    for (let n = 0; n < asked.length; n++) asked.find(({ name }) => name === served[n])!.end();
    expect(served).toEqual(["first", "busy 1 #1", "quiet 3", "busy 2", "busy 1 #2", "busy 1 #3"]);
  });

  it("has places for everybody while one client and one app fill it", () => {
    const { ask } = sharesOf(1, 64);
    ask("busy", "1");
    const count = (app: string, client: string) => {
      let places = 0;
      while (ask(app, client).place !== undefined) places++;
      return places;
    };
    expect(count("busy", "1")).toBeLessThanOrEqual(32);
    for (let n = 2; n < 40; n++) count("busy", `${n}`);
    expect(ask("quiet", "100").place).toBeDefined();
  });

  it("is left exactly at the end of the waiting time, measured from the arrival", async () => {
    const { ask, expired, clock, shares } = sharesOf(1);
    const { end } = ask("a", "1");
    ask("a", "1", { name: "first" });
    await clock.advance(3_000);
    ask("a", "2", { name: "second" });
    await clock.advance(10_000);
    expect(expired).toEqual([
      { name: "first", atMs: 5_000 },
      { name: "second", atMs: 8_000 },
    ]);
    end();
    expect(shares.outstanding).toBe(0);
  });

  it("forgets a request that was aborted: its place is free, and it gets no connection", () => {
    const { ask, served, shares } = sharesOf(1, 1);
    const { end } = ask("a", "1");
    const waiting = ask("a", "2", { name: "aborted" });
    expect(ask("b", "3").place).toBeUndefined();
    waiting.end();
    ask("b", "3", { name: "next" });
    end();
    expect(served).toEqual(["a 1", "next"]);
    expect(shares.outstanding).toBe(1);
  });
});

describe("slow transfers", () => {
  /** Clients one after the other take all that they can get, until nothing is free. */
  function hoarded(clients: number, appOf: (n: number) => string) {
    const made = sharesOf(64);
    for (let n = 0; n < clients; n++) made.grab(appOf(n), `hoarder ${n}`, { isSlow: true });
    return made;
  }

  it("of those who hold most are ended for requests that wait, of other apps and of the same one", async () => {
    const manyApps = hoarded(20, (n) => `app ${n}`);
    manyApps.ask("quiet", "newcomer");
    expect(manyApps.served).not.toContain("quiet newcomer");
    await manyApps.clock.advance(QUEUE_MS - 1);
    expect(manyApps.served).toContain("quiet newcomer");
    expect(manyApps.ended).toEqual(["app 0 hoarder 0"]);

    const oneApp = hoarded(20, () => "app");
    oneApp.ask("app", "newcomer");
    await oneApp.clock.advance(QUEUE_MS - 1);
    expect(oneApp.served).toContain("app newcomer");
    expect(oneApp.ended).toEqual(["app hoarder 0"]);
    expect(oneApp.expired).toEqual([]);
  });

  it("are ended for a newcomer, however many requests of those who hold as many wait before it", async () => {
    const { ask, clock, served } = hoarded(20, (n) => `app ${n}`);
    for (let n = 0; n < 20; n++) ask(`app ${n}`, `hoarder ${n}`, { name: "more" });
    ask("quiet", "newcomer");
    await clock.advance(QUEUE_MS - 1);
    expect(served).toContain("quiet newcomer");
  });

  it("are not ended for requests of those who hold as many, and no others are ended", async () => {
    const { ask, clock, ended, expired } = hoarded(20, (n) => `app ${n}`);
    ask("app 0", "hoarder 0");
    await clock.advance(QUEUE_MS);
    expect([ended, expired.length]).toEqual([[], 1]);
    const fast = sharesOf(64);
    for (let n = 0; n < 20; n++) fast.grab(`app ${n}`, `client ${n}`);
    fast.ask("quiet", "newcomer");
    await fast.clock.advance(QUEUE_MS);
    expect([fast.ended, fast.expired.length]).toEqual([[], 1]);
  });
});
