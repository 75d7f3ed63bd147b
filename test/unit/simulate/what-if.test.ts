/** Recorded requests, replayed with two configurations. */
import { expect, it } from "vitest";
import { readConfig } from "../../../src/config/load.js";
import type { Config } from "../../../src/config/schema.js";
import { createTrafficSample } from "../../../src/service/metrics/traffic-sample.js";
import { type RecordedRequest, whatIf } from "../../../src/simulate/what-if.js";

const configOf = (yaml: string) => readConfig(yaml, {}).config as Config;

it("reports how many requests of each app each configuration refuses", async () => {
  const requests = Array.from({ length: 300 }, (_, i): RecordedRequest => [1_000_000 + i * 10, "video", "GET", 1]);
  const before = configOf("apps: { video: { guaranteed: 10, burst: 20 } }");
  const after = configOf("apps: { video: { guaranteed: 1000, burst: 1000 } }");
  const [video] = await whatIf({ before, after, requests, nodes: 2 });
  expect(video).toMatchObject({ app: "video", requests: 300, refusedAfter: 0 });
  // 20 at once and 10 per second for three seconds.
  expect(video?.refusedBefore).toBeGreaterThan(240);
  expect(video?.refusedBefore).toBeLessThan(270);
});

it("keeps the last 20,000 requests of a quarter of an hour, without anything that identifies a client", () => {
  const sample = createTrafficSample();
  sample.add("old", "GET", 1, 0);
  for (let i = 0; i < 25_000; i++) sample.add("video", i % 2 === 0 ? "PUT" : "BREW", 3, 1_000_000 + i);
  const kept = sample.list(1_025_000);
  expect(kept).toHaveLength(20_000);
  expect(kept[0]).toEqual([1_005_000, "video", "PUT", 3]);
  expect(kept[1]).toEqual([1_005_001, "video", "GET", 3]);
  expect(sample.list(1_024_500 + 15 * 60_000).length).toBeLessThanOrEqual(500);
  sample.clear();
  expect(sample.list(1_025_000)).toEqual([]);
});
