/** The choice of a target: healthy, fewest open exchanges, in turn; with a driven clock. */
import type { Pool } from "undici";
import { afterEach, describe, expect, it } from "vitest";
import type { UpstreamOptions } from "../../../../src/config/options/proxy.js";
import { type Target, targetNameOf, Upstream } from "../../../../src/planes/node/upstream/upstream.js";
import { systemClock } from "../../../../src/shared/clock.js";
import { createTlsClients } from "../../../../src/shared/tls/tls-clients.js";

let now = 0;
const pools = new Set<Pool>();
afterEach(async () => {
  await Promise.all([...pools].map((pool) => pool.destroy()));
  pools.clear();
});

function upstreamOf(targets: string[], options: Partial<UpstreamOptions> = {}, lines: string[] = []): Upstream {
  const note = (_: object, message: string) => void lines.push(message);
  const log = { info: note, warn: note };
  const tlsClients = createTlsClients({ clock: systemClock, log });
  const settings = {
    connectMs: 1_000,
    maxConnections: 1_000,
    headerBytes: 16_384,
    log,
    clock: { ...systemClock, now: () => now },
    pools,
    tlsClients,
  };
  return new Upstream({ name: "test", options, targets: targets.map(targetNameOf) }, settings);
}

function occupy({ shares }: Target, connections: number): void {
  const nothing = () => {};
  const never = { waitUntilMs: () => 0, mayYield: () => false };
  const seeker = { ...never, connectionFree: nothing, waitedTooLong: nothing, yieldConnection: nothing };
  for (let n = 0; n < connections; n++) shares.enter("app", "", seeker);
}

const picks = (upstream: Upstream, times: number) =>
  Array.from({ length: times }, () => upstream.targets.indexOf(upstream.pick()!));

describe("the next target", () => {
  it("is chosen in turn if all have equally few open exchanges", () => {
    expect(picks(upstreamOf(["a:1", "b:1", "c:1"]), 6)).toEqual([0, 1, 2, 0, 1, 2]);
  });

  it("is the one with the fewest open exchanges", () => {
    const upstream = upstreamOf(["a:1", "b:1", "c:1"]);
    occupy(upstream.targets[0]!, 2);
    occupy(upstream.targets[2]!, 1);
    expect(picks(upstream, 3)).toEqual([1, 1, 1]);
    occupy(upstream.targets[1]!, 5);
    expect(picks(upstream, 2)).toEqual([2, 2]);
  });

  it("is never the one left out", () => {
    const upstream = upstreamOf(["a:1", "b:1"]);
    for (let n = 0; n < 4; n++) expect(upstream.pick(upstream.targets[0])).toBe(upstream.targets[1]);
    const alone = upstreamOf(["a:1"]);
    expect(alone.pick(alone.targets[0])).toBeUndefined();
  });
});

describe("a target that fails", () => {
  it("is skipped after the configured number of failures in a row, for the configured time", () => {
    const lines: string[] = [];
    const upstream = upstreamOf(["a:1", "b:1"], { passive: { failures: 2, downMs: 1_000 } }, lines);
    const [first] = upstream.targets;
    upstream.failed(first!);
    upstream.succeeded(first!);
    upstream.failed(first!);
    expect(new Set(picks(upstream, 4))).toEqual(new Set([0, 1]));
    upstream.failed(first!);
    expect(picks(upstream, 4)).toEqual([1, 1, 1, 1]);
    now += 1_000;
    expect(new Set(picks(upstream, 4))).toEqual(new Set([0, 1]));
    upstream.failed(first!);
    expect(picks(upstream, 2), "one failure of a trial is enough").toEqual([1, 1]);
    now += 1_000;
    upstream.succeeded(first!);
    expect(new Set(picks(upstream, 4))).toEqual(new Set([0, 1]));
    expect(lines).toEqual(["target is skipped", "target is healthy again"]);
  });

  it("is tried anyway when no other is better", () => {
    const upstream = upstreamOf(["a:1", "b:1"], { passive: { failures: 1 } });
    for (const target of upstream.targets) upstream.failed(target);
    expect(picks(upstream, 2).sort()).toEqual([0, 1]);
  });

  it("is skipped while its health checks fail, and counts failures anew afterwards", () => {
    const upstream = upstreamOf(["a:1", "b:1"], { passive: { failures: 1, downMs: 1_000_000 } });
    const [first] = upstream.targets;
    upstream.setFailing(first!, true);
    upstream.failed(first!);
    expect(picks(upstream, 2)).toEqual([1, 1]);
    upstream.setFailing(first!, false);
    expect(new Set(picks(upstream, 4))).toEqual(new Set([0, 1]));
  });
});
