/** Values of limits on a node without timers (Envoy): they hold few tokens, which expire, and nothing of a small limit. */
import { describe, expect, it } from "vitest";
import { decideRemotely } from "../../../src/engine/decide.js";
import { activate } from "../../../src/engine/node.js";
import { recallTokens } from "../../../src/engine/reply.js";
import { createNodeDriver, limits } from "./node-driver.js";

const NODES = 4;

function start(burst: number, guaranteed = burst) {
  const driver = createNodeDriver([limits({ id: "value", burst, guaranteed, fillSeconds: burst / guaranteed })], {
    timers: false,
  });
  const account = driver.account("value");
  account.lease.target = 0;
  driver.node.liveNodes = NODES;

  /** A request: from the lease, or paid by the service. True if it was decided here. */
  function use(): boolean {
    const outcome = driver.request("value");
    if (outcome.code === "ok") return true;
    account.waiters = [];
    account.waitingCost = 0;
    decideRemotely(outcome, { code: "ok", remaining: burst, limit: burst, retryAfterMs: 0 }, driver.now());
    account.lookAt = 0;
    activate(driver.node, account);
    return false;
  }
  /** One message, to which the store grants everything. */
  function sync(scarce = false) {
    const planned = driver.send();
    driver.receive(planned, ({ message }) => ({ granted: message.granted + message.want, remaining: burst, scarce }), {
      liveNodes: NODES,
    });
    return planned.map(({ message }) => message);
  }
  return { ...driver, account, use, sync, held: () => account.cell.get() };
}

describe("a value on a node without timers", () => {
  it("holds nothing after its first request, and a few tokens after its second", () => {
    const { use, sync, advance, held } = start(1_000_000);
    expect(use()).toBe(false);
    advance(1_000);
    sync();
    expect(held()).toBe(0);
    expect(use()).toBe(false);
    advance(100);
    sync();
    // Ten seconds at the rate measured so far.
    expect(held()).toBe(18);
    expect(use()).toBe(true);
  });

  it("causes few messages: at 7 requests per second fewer than one per 40 requests, and no call of the service", () => {
    const { use, sync, advance, send, receive } = start(1_000_000);
    for (let i = 0; i < 3; i++) {
      use();
      advance(140);
    }
    sync();
    let entries = 0;
    for (let i = 0; i < 700; i++) {
      expect(use()).toBe(true);
      advance(140);
      const planned = send();
      entries += planned.length;
      receive(planned, ({ message }) => ({ granted: message.granted + message.want, remaining: 1_000_000 }));
    }
    expect(entries).toBeLessThanOrEqual(700 / 40);
  });

  it("holds at most a tenth of the bucket divided by the nodes", () => {
    const { use, sync, advance, held } = start(1_000);
    for (let i = 0; i < 400; i++) {
      use();
      advance(10);
      sync();
      expect(held()).toBeLessThanOrEqual(1_000 / 10 / NODES);
    }
    expect(held()).toBeGreaterThan(0);
  });

  it("holds nothing of a small limit, unless it is used several times per second", () => {
    const { use, sync, advance, held } = start(79);
    for (let i = 0; i < 50; i++) {
      expect(use()).toBe(false);
      advance(400);
      expect(sync()).toEqual([]);
      expect(held()).toBe(0);
    }
  });

  it("returns its tokens when it was not used for ten seconds", () => {
    const { use, sync, advance, held, account } = start(1_000_000);
    for (let i = 0; i < 3; i++) {
      use();
      advance(1_000);
      sync();
    }
    use();
    expect(held()).toBeGreaterThan(0);
    for (let i = 0; i < 9; i++) {
      advance(1_000);
      sync();
    }
    expect(held()).toBeGreaterThan(0);
    for (let i = 0; i < 11; i++) {
      advance(1_000);
      sync();
    }
    expect(held()).toBe(0);
    expect(account.lease.granted - account.lease.returned).toBe(2);
  });

  it("returns recalled tokens with its next message, and asks later whether they are still scarce", () => {
    const { use, sync, advance, held, account, node } = start(1_000_000);
    for (let i = 0; i < 3; i++) {
      use();
      advance(1_000);
      sync();
    }
    recallTokens(node, account);
    advance(100);
    expect(sync(true)[0]).toMatchObject({ want: 0 });
    expect(held()).toBe(0);
    let asked = 0;
    for (let i = 0; i < 20; i++) {
      expect(use()).toBe(false);
      advance(1_000);
      asked += sync(true).length;
    }
    expect(asked).toBeLessThanOrEqual(2);
    use();
    use();
    advance(10_000);
    sync();
    use();
    use();
    advance(100);
    sync();
    expect(use()).toBe(true);
  });
});
