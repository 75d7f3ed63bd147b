/**
 * Scenarios with several shards, on every kind of store and on every plane. A selection; with SCENARIOS=all all of them
 * (`make scenarios`, about half an hour).
 */
import { describe, expect, it } from "vitest";
import { leaseScenarios } from "../scenarios/leases.js";
import { scenarios, type Verdict } from "../scenarios/limits.js";
import { playAll } from "../scenarios/play-all.js";
import { onStore, type StoreSetup } from "../scenarios/scenario-store.js";
import { findEnvoy } from "../support/envoy-binary.js";
import type { PlaneKind } from "../support/planes.js";

type Scenario = [name: string, play: (kind: PlaneKind) => Promise<Verdict>];

const all: Scenario[] = [...leaseScenarios, ...scenarios];
const kinds: PlaneKind[] = findEnvoy() === undefined ? ["nginx"] : ["nginx", "envoy"];

/** They look into the store, or make it fail, from outside. */
const NOT_EMBEDDED =
  /^(a flood of requests|Redis (killed|stopped|slow)|an emergency|workers killed|an instance killed)/;

const selection: { setup: StoreSetup; names: string[] }[] = [
  { setup: { kind: "redis", shards: 5 }, names: ["Redis killed"] },
  { setup: { kind: "redis-cluster", shards: 16 }, names: ["an emergency"] },
  { setup: { kind: "embedded", shards: 5 }, names: ["steady load, then a flood: 50 per second, burst 10"] },
];

describe.each(selection)("on $setup.kind with $setup.shards shards", ({ setup, names }) => {
  const possible = all.filter(([name]) => setup.kind !== "embedded" || !NOT_EMBEDDED.test(name));
  const chosen = process.env.SCENARIOS === "all" ? possible : all.filter(([name]) => names.includes(name));

  it.each(chosen)(
    "planes decide alike: %s",
    (_name, play) =>
      onStore(setup, async () => {
        const [onNode, ...others] = [await play("node"), ...(await playAll(play, kinds))];
        for (const verdict of others) expect(verdict).toEqual(onNode);
      }),
    240_000,
  );
});
