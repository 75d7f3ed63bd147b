/** The text output of every operator command for sample replies, in terminals of several sizes. */
import { describe, expect, it } from "vitest";
import { appsLines, sortedApps } from "../../../src/cli/apps.js";
import { borrowLines, repayLines } from "../../../src/cli/borrow.js";
import { connectionsLines } from "../../../src/cli/connections.js";
import { degradationLines } from "../../../src/cli/degradation.js";
import { emergencyLines } from "../../../src/cli/emergency.js";
import { deepLines, readyLines, servingLines } from "../../../src/cli/health.js";
import { layerLines } from "../../../src/cli/layer.js";
import { changeLines, limitsLines, usageLines } from "../../../src/cli/limit-commands.js";
import { cutToFit, lengthOf, printed } from "../../../src/cli/printing.js";
import { reconcileLines } from "../../../src/cli/reconcile.js";
import { reloadLines } from "../../../src/cli/reload.js";
import { statusLine, statusScreen } from "../../../src/cli/status/screen.js";
import { ratesOf, type Snapshot } from "../../../src/cli/status/snapshot.js";
import { whyLines } from "../../../src/cli/why.js";
import * as contract from "../../../src/service/operations/contract/contract.js";
import * as samples from "./sample-replies.js";

const wide = Number.POSITIVE_INFINITY;
const text = (lines: string[]) => printed(lines, {});

it("the samples conform to the API contract", () => {
  const { live, ready, notReady, deep, status, apps, app, connections, reloaded, layer } = samples;
  contract.liveReply.parse(live);
  for (const each of [ready, notReady]) contract.readyReply.parse(each);
  contract.deepReply.parse(deep);
  contract.statusReply.parse(status);
  contract.appsReply.parse(apps);
  contract.appReply.parse(app);
  contract.connectionsReply.parse(connections);
  for (const each of [samples.emergencyOn, samples.emergencyOff]) contract.emergencyState.parse(each);
  contract.emergencyReply.parse(samples.emergencyOrdered);
  contract.degradationState.parse(samples.degradation);
  contract.degradationReply.parse(samples.degradationSet);
  contract.reconcileReply.parse(samples.reconciled);
  contract.reloadReply.parse(reloaded);
  contract.layerReply.parse(layer);
  contract.borrowReply.parse(samples.borrowed);
  contract.repayReply.parse(samples.repaid);
});

describe("status", () => {
  const snapshot: Snapshot = { status: samples.status, apps: samples.apps.apps, appsTotal: 2 };
  const screen = (
    changed: Partial<Snapshot> = {},
    size: { columns?: number; rows?: number; mostApps?: number } = {},
  ) => {
    const now = { ...snapshot, ...changed };
    const { columns = Number.POSITIVE_INFINITY, rows = Number.POSITIVE_INFINITY, mostApps = 10 } = size;
    return statusScreen({
      snapshot: now,
      rates: ratesOf(undefined, now),
      columns,
      rows,
      mostApps,
    });
  };

  it("shows mode, rates, refusals, hit ratio, latency, store, workers, config and the busiest apps", () => {
    const shown = text(screen());
    expect(shown).toContain("gw-01  normal  level 0");
    expect(shown).toMatch(/^requests +135 +1,000,000$/m);
    expect(shown).toMatch(/^refused +1\.4 +10,000 +1\.0 % of all requests$/m);
    expect(shown).toMatch(/^hit ratio +98\.7 % +98\.7 % +decided locally$/m);
    expect(shown).toMatch(/^latency +12 µs +12 µs +of a decision; p99 500 µs$/m);
    expect(shown).toMatch(/^store +1 of 1 server, 2 of 512 calls in flight$/m);
    expect(shown).toMatch(/^workers +2, memory 41 of 4,288 MB$/m);
    expect(shown).toMatch(/^cluster +4 nodes, 213 client connections here$/m);
    expect(shown).toMatch(/^config +3f9a1c2b$/m);
    expect(shown).toMatch(/^video-service +122 +1\.4 +12,345 +20,000 +0 +quota_exhausted, 10s ago$/m);
    expect(shown).toMatch(/^batch +13\.5 +0 +2 +20,000 +60$/m);
    expect(shown).not.toContain("emergency");
  });

  it("shows unusual states first", () => {
    const status: Snapshot["status"] = {
      ...samples.status,
      mode: "emergency",
      emergency_mode: true,
      emergency: {
        bursts_stopped: false,
        source: "operator",
        reason: "load test",
        operator: "alex",
        seconds_left: 270,
      },
      degradation_level: 2,
      degradation_pinned_until: "2025-01-02T03:09:05.000Z",
      redis: { ...samples.status.redis, cluster_nodes: 6, connected_nodes: 5 },
    };
    const lines = text(screen({ status })).split("\n");
    expect(lines[0]).toContain("gw-01  emergency");
    expect(lines[1]).toBe("emergency by alex, 4m 30s left: limits depend on the priority of the app");
    expect(lines[2]).toBe("reason: load test");
    expect(lines[3]).toBe("level 2: the store is very slow, requests do not wait for it, pinned for 5m");
    expect(lines[4]).toBe("store: 5 of 6 servers are connected");
  });

  it("shows shards that do not reply, and the range of their rates", () => {
    expect(text(screen())).not.toMatch(/^shards/m);
    const shard = (number: number, rate: number, available = true) => ({
      ...{ shard: number, available, capacity: 100, rate, tokens: 50, held: 10 },
    });
    const shown = (shards: contract.StatusReply["shards"]) => text(screen({ status: { ...samples.status, shards } }));
    expect(shown([shard(0, 20), shard(1, 80)])).toMatch(/^shards +2, all available, 20 to 80 tokens\/s each$/m);
    expect(shown([shard(0, 20), shard(1, 0, false)])).toMatch(/^shards +2, unavailable: 1, 20 to 20 tokens\/s each$/m);
  });

  it("shows the tokens on leases, the largest first, and recalls in progress", () => {
    expect(text(screen())).toMatch(/^leases +gw-02-w1 1,000 \(dead\), gw-01-w1 990$/m);
    expect(text(screen())).not.toContain("recalls");
    const recalling = (recalls: string[]) => text(screen({ status: { ...samples.status, nodes: [], recalls } }));
    expect(recalling(["video", "batch"])).toMatch(/^leases +no node holds tokens$/m);
    expect(recalling(["video", "batch"])).toMatch(/^recalls +video, batch$/m);
    expect(recalling(["video", "*"])).toMatch(/^recalls +all apps$/m);
    const node = (i: number) => ({ node_id: `n${i}@1`, alive: true, silent_ms: 0, held: 100 - i });
    const many = { ...samples.status, nodes: Array.from({ length: 10 }, (_, i) => node(i)) };
    expect(text(screen({ status: many }))).toMatch(/^leases +n0 100, .*n7 93, 2 more$/m);
  });

  it("shows at most the requested number of apps and the total", () => {
    const apps = Array.from({ length: 30 }, (_, i) => samples.appNamed(`app-${i}`, { requests: 1000 - i }));
    const shown = text(screen({ apps, appsTotal: 30 }, { mostApps: 3 }));
    expect(shown).toContain("app-0 ");
    expect(shown).toContain("app-2 ");
    expect(shown).not.toContain("app-3 ");
    expect(shown).toContain("and 27 more: tollgate apps");
    expect(text(screen({ apps, appsTotal: 5_000 }, { mostApps: 3 }))).toContain("only the first 30 were fetched");
  });

  it.each([
    [80, 24],
    [40, 12],
    [20, 5],
    [10, 2],
  ])("fits a terminal of %i columns and %i lines", (columns, rows) => {
    const apps = Array.from({ length: 50 }, (_, i) => samples.appNamed(`app-${i}`, { requests: i }));
    const lines = screen({ apps, appsTotal: 50 }, { columns, rows, mostApps: 50 }).map((line) =>
      cutToFit(line, columns),
    );
    expect(lines.length).toBeLessThanOrEqual(rows);
    for (const line of lines) expect(lengthOf(line)).toBeLessThanOrEqual(columns);
  });

  it("keeps the rates of the apps in a narrow terminal and drops other columns", () => {
    const shown = text(screen({}, { columns: 40 }));
    expect(shown).toMatch(/^busiest apps +req\/s +refused\/s$/m);
    expect(shown).not.toContain("last refusal");
  });

  it("shows a question mark for values that the store does not provide", () => {
    const apps = [samples.appNamed("video", { l2_tokens: null, debt: null })];
    expect(text(screen({ apps, appsTotal: 1 }))).toMatch(/^video +0 +0 +\? +20,000 +\?$/m);
  });

  it("has a one-line form for logs", () => {
    expect(statusLine(snapshot, ratesOf(undefined, snapshot))).toBe(
      "2025-01-02T03:04:05.000Z  normal  requests/s 135  refused/s 1.4  hit 98.7 %  latency 12 µs  level 0  emergency off  " +
        "store 1/1  workers 2  config 3f9a1c2b",
    );
  });
});

describe("why", () => {
  const shown = text(whyLines(samples.app, { columns: wide, last: 5 }));

  it("begins with the app and the explanation", () => {
    expect(shown.split("\n").slice(0, 3).join(" ").replace(/ +/g, " ")).toBe(`video-service ${samples.app.why}`);
  });

  it("shows the balance of every layer, the debt, and the leases per node", () => {
    expect(shown).toMatch(/^L1 cluster +812,000 +1,000,000 +81\.2 % +refills 500,000\/s, shared by all apps$/m);
    expect(shown).toMatch(/^L2 app +4 +20,000 +0\.0 % +refills 10,000\/s, debt 120$/m);
    expect(shown).toMatch(/^L3 leases +1,000 +on 2 nodes$/m);
    expect(shown).toMatch(/^ {2}gw-01-w1 +990 +3 +1,000,000 +999,000 +10$/m);
    expect(shown).toMatch(/^ {2}gw-02-w1 +dead +10 +- +900,000 +891,000 +8,990$/m);
  });

  it("counts refusals by reason, the most frequent first", () => {
    expect(shown).toContain(
      "900,000 requests counted by this service, 10,000 refused (1.1 %), 98.7 % decided locally\n",
    );
    expect(shown.indexOf("quota_exhausted  9,983")).toBeLessThan(shown.indexOf("cluster_exhausted  17"));
  });

  it("shows the last refusals with layer, cost, balance, retry time and explanation", () => {
    expect(shown).toMatch(
      /^ {2}10s ago +quota_exhausted +L2 +PUT for 21, lease 3, retry in 1\.7 s, remote, gw-01-w1$/m,
    );
    expect(shown).toContain(`    ${samples.refusal.explanation}\n`);
    expect(shown).toContain("do not retry");
    expect(text(whyLines(samples.app, { columns: wide, last: 1 }))).not.toContain("do not retry");
  });

  it("shows what a dry run admitted", () => {
    const would = { code: "quota_exhausted", layer: "L2" as const, limit: null, dry_run: true, total: 12 };
    const dry = {
      ...samples.app,
      config: { ...samples.app.config, dry_run: true },
      statistics: { ...samples.app.statistics, rejected: 0, dry_run_rejected: 12, refusals: {}, reasons: [would] },
      last_refusals: [{ ...samples.refusal, dry_run: true }],
    };
    const lines = text(whyLines(dry, { columns: wide, last: 5 }));
    expect(lines).toContain("dry run: its own limit refuses nothing");
    expect(lines).toContain("0 refused (0.0 %), 12 would be refused without a dry run");
    expect(lines).toMatch(/^ {2}would refuse: quota_exhausted {2}12$/m);
    expect(lines).toMatch(/^ {2}10s ago +would refuse: quota_exhausted +L2/m);
    expect(lines).not.toMatch(/^ {2}quota_exhausted/m);
  });

  it("labels refusals by a limit with its name", () => {
    const row = { code: "quota_exhausted", layer: "limit" as const, limit: "per-user", dry_run: false, total: 30 };
    const statistics = { ...samples.app.statistics, reasons: [row, { ...row, limit: "*", total: 2 }] };
    const last_refusals = [{ ...samples.refusal, limit_name: "per-user" }];
    const lines = text(whyLines({ ...samples.app, statistics, last_refusals }, { columns: wide, last: 5 }));
    expect(lines).toMatch(/^ {2}quota_exhausted by per-user {2}30$/m);
    expect(lines).toMatch(/^ {2}quota_exhausted by a limit {2}2$/m);
    expect(lines).toMatch(/^ {2}10s ago +quota_exhausted by per-user +PUT/m);
    expect(lines).not.toMatch(/10s ago.*L2/);
  });

  it("shows that the store is unavailable", () => {
    const { l1, l3 } = samples.app.layers;
    const layers = { l1: { ...l1, tokens: null }, l2: null, l3: { ...l3, held: null, leases: [] } };
    const lines = text(whyLines({ ...samples.app, layers }, { columns: wide, last: 5 }));
    expect(lines).toMatch(/^L1 cluster +\? +the store is unavailable$/m);
    expect(lines).toMatch(/^L2 app +\? +the store is unavailable$/m);
    expect(lines).toMatch(/^L3 leases +\? +the store is unavailable$/m);
  });
});

describe("apps", () => {
  const { apps } = samples.apps;

  it("are a table with the tokens of the cluster", () => {
    const shown = text(appsLines(samples.apps, wide));
    expect(shown).toMatch(/^video-service +900,000 +10,000 +12,345 +20,000 +10,000 +0 +1 +quota_exhausted, 10s ago$/m);
    expect(shown).toMatch(/^batch +100,000 +0 +2 +20,000 +10,000 +60 +3$/m);
    expect(shown).toContain("cluster: 812,000 of 1,000,000 tokens, 500,000/s; 2 apps\n");
  });

  it("can be sorted, equal ones by name", () => {
    const names = (sort: Parameters<typeof sortedApps>[1]) => sortedApps(apps, sort).map(({ app_id }) => app_id);
    expect(names("name")).toEqual(["batch", "video-service"]);
    expect(names("requests")).toEqual(["video-service", "batch"]);
    expect(names("refused")).toEqual(["video-service", "batch"]);
    expect(names("tokens")).toEqual(["batch", "video-service"]);
    expect(names("debt")).toEqual(["batch", "video-service"]);
    expect(names("priority")).toEqual(["video-service", "batch"]);
    const alike = [samples.appNamed("b"), samples.appNamed("a")];
    expect(sortedApps(alike, "requests").map(({ app_id }) => app_id)).toEqual(["a", "b"]);
  });

  it("show what a dry run admitted in a column of its own, next to refusals by other limits", () => {
    const dry = {
      ...samples.apps,
      apps: [samples.appNamed("new", { dry_run: true, rejected: 3, dry_run_rejected: 7 })],
    };
    expect(text(appsLines(dry, wide))).toMatch(/^app +requests +refused +would refuse +tokens/m);
    expect(text(appsLines(dry, wide))).toMatch(/^new \(dry run\) +0 +3 +7 /m);
    expect(text(appsLines(samples.apps, wide))).not.toContain("would refuse");
  });

  it("show which limit refused last", () => {
    const last_refusal = { ...samples.refusal, limit_name: "per-user" };
    const limited = { ...samples.apps, apps: [samples.appNamed("new", { last_refusal })] };
    expect(text(appsLines(limited, wide))).toContain("quota_exhausted by per-user, 10s ago");
  });
});

describe("limits", () => {
  const counts = { requests: 1_200, allowed: 1_100, rejected: 100, dry_run_rejected: 0 };
  const perUser = {
    ...{ limit: "per-user", key: ["user"], rate: "10/s", burst: 20, count: "request" as const, dry_run: false },
    decisions: counts,
  };
  const { timestamp } = samples.apps;

  it("are listed with requests and refusals, and with what a dry run admitted", () => {
    const lines = text(limitsLines({ limits: [perUser], descriptors: [], timestamp }, wide));
    expect(lines).toMatch(/^limit +key +rate +burst +requests +refused +counts$/m);
    expect(lines).toMatch(/^per-user +user +10\/s +20 +1,200 +100 +requests$/m);
    const trial = {
      ...perUser,
      limit: "trial",
      dry_run: true,
      decisions: { ...counts, rejected: 0, dry_run_rejected: 9 },
    };
    const both = text(limitsLines({ limits: [perUser, trial], descriptors: [], timestamp }, wide));
    expect(both).toMatch(/^trial \(dry run\) +user +10\/s +20 +1,200 +0 +9 +requests$/m);
    // An older service does not count them.
    const old = text(limitsLines({ limits: [{ ...perUser, decisions: null }], descriptors: [], timestamp }, wide));
    expect(old).toMatch(/^per-user +user +10\/s +20 +\? +\? +requests$/m);
  });

  it("show requests and refusals of one limit above its values", () => {
    const reply = { ...perUser, in_use: 0, values: [], why: "", timestamp };
    const lines = text(usageLines(reply, wide)).split("\n");
    expect(lines[1]).toBe("1,200 requests counted by this service, 100 refused (8.3 %)");
    const decisions = { ...counts, dry_run_rejected: 5 };
    expect(text(usageLines({ ...reply, decisions }, wide))).toContain(", 5 would be refused without a dry run");
  });

  it("say why a bucket got fewer tokens than asked for", () => {
    const reply = { status: "topped_up" as const, limit: "per-user", value: "ann", added: 0, remaining: 12, timestamp };
    expect(text(changeLines({ ...reply, explanation: "It is full." }, wide))).toBe(
      "per-user: ann got 0 tokens, 12 in the bucket\n  It is full.\n",
    );
    expect(text(changeLines({ ...reply, added: 5, explanation: "" }, wide))).toBe(
      "per-user: ann got 5 tokens, 12 in the bucket\n",
    );
  });
});

describe("health", () => {
  it("shows every component, warnings and dead nodes", () => {
    const { components } = samples.deep;
    const reply = {
      ...samples.deep,
      status: "degraded" as const,
      emergency_mode: true,
      components: {
        ...components,
        redis: { ...components.redis, latency_ms: null, warnings: ["maxmemory-policy is allkeys-lru"] },
        config: { ...components.config, last_error: "apps.x.burst: must be a whole number" },
      },
    };
    const shown = text(deepLines(reply, wide));
    expect(shown).toContain("degraded  level 0  emergency\n");
    expect(shown).toMatch(/^ {2}store +healthy +redis, not available$/m);
    expect(shown).toMatch(/^ {2}gateway +healthy +0\.1\.0, up 2h 3m, 2 workers$/m);
    expect(shown).toContain("warning: maxmemory-policy is allkeys-lru\n");
    expect(shown).toContain("warning: the last reload was rejected: apps.x.burst: must be a whole number\n");
    expect(shown).toMatch(/^gw-01-w1 +alive +now$/m);
    expect(shown).toMatch(/^gw-02-w1 +dead +1m 5s ago$/m);
  });

  it("shows whether the service can decide requests", () => {
    const stopping = { ...samples.serving, serving: false, state: "stopping" as const };
    expect(text(servingLines(stopping))).toBe("not serving: stopping, 1 of 2 workers\n");
  });

  it("shows which check failed", () => {
    expect(text(readyLines(samples.notReady))).toBe(
      "not ready\n  store          error\n  workers        ok\n  configuration  ok\n",
    );
  });
});

describe("orders", () => {
  it("report their result", () => {
    expect(text(emergencyLines(samples.emergencyOrdered, wide))).toBe(
      [
        "emergency, started by alex",
        "  since  2025-01-02T03:04:05.000Z",
        "  until  2025-01-02T03:09:05.000Z, 5m left",
        "  reason database at its limit",
        "  limits reduced for video-service, batch",
        "",
      ].join("\n"),
    );
    expect(text(emergencyLines(samples.emergencyOn, wide))).toContain("emergency, started automatically\n");
    expect(text(emergencyLines(samples.emergencyOn, wide))).toContain("until  usage is below 80 %\n");
    const endless = { ...samples.emergencyOn, source: "operator" };
    expect(text(emergencyLines(endless, wide))).toContain("until  turned off\n");
    const read: contract.EmergencyStateReply = {
      ...samples.emergencyOn,
      source: "operator",
      reason: "drill",
      operator: "alex",
    };
    expect(text(emergencyLines(read, wide))).toMatch(/^emergency, started by alex\n[\s\S]*\n {2}reason drill\n/);
    expect(text(emergencyLines(samples.emergencyOff, wide))).toBe("no emergency\n");
    expect(text(degradationLines(samples.degradation, wide))).toBe(
      [
        "level 2",
        "  pinned at 2 by alex for another 5m: Redis is being upgraded",
        "  node                         level  store latency  calls in 2 s  failed",
        "  gw-01-w1                         2         133 ms            41       0",
        "  data planes of this service      0",
        "  Level 1 from a mean latency of 10.0 ms on, 2 above 100 ms or with 5 % of failed calls, 3 with",
        "  timeouts or 50 %. On a busy machine the time that this process waits for a core counts as well.",
        "",
      ].join("\n"),
    );
    expect(text(reconcileLines(samples.reconciled))).toBe(
      [
        "video-service reconciled",
        "  corrections  1",
        "  recovered    990 tokens of dead nodes",
        "  drift        12.5 % before, 0.0 % after",
        "  bucket       expected 20,000, had 17,500, corrected by 2,500",
        "",
      ].join("\n"),
    );
    expect(text(reconcileLines({ ...samples.reconciled, app_id: "*", apps: 12 }))).not.toContain("bucket");
    expect(text(reloadLines(samples.reloaded, wide))).toBe(
      "reloaded: version 77aa01fe, previously 3f9a1c2b; 5 apps and 1 limit affected\nneeds a restart: listen\n",
    );
    expect(text(borrowLines(samples.borrowed, wide))).toBe(
      "video-service borrowed 500 tokens\n  tokens 504, debt 600, may borrow 4,500 more\n",
    );
    expect(text(repayLines({ ...samples.repaid, status: "refused", code: "held" }))).toContain("refused: held\n");
  });

  it("show the layer as YAML that put accepts", () => {
    expect(text(layerLines(samples.layer))).toBe(
      "# revision 7, configuration 77aa01fe\napps:\n  video-service:\n    guaranteed: 5000\n",
    );
    expect(text(layerLines({ ...samples.layer, config: {} }))).toContain("# the layer is empty");
  });

  it("show connections per route and pod against their limits", () => {
    const shown = text(connectionsLines(samples.connections, wide));
    expect(shown).toMatch(/^\/ws\/ +sockets +10\.0\.0\.1:9101 +2 +2 +100\.0 %$/m);
    expect(shown).toMatch(/^route +open +limit +per app +per client +refused$/m);
    expect(shown).toMatch(/^\/ws\/ +3 +1,000 +none +2 +8$/m);
    expect(shown).toContain("3 connections with a slot, 8 refused since the store was created\n");
    const unlimited = { route: "a.example/", connections: 0, limit: 0, max_per_app: 5, max_per_client: 0, rejected: 0 };
    const two = [...samples.connections.routes, unlimited];
    const partly = text(connectionsLines({ ...samples.connections, routes: two, unavailable: ["/b/"] }, wide));
    expect(partly).toMatch(/^a\.example\/ +0 +none +5 +none +0$/m);
    expect(partly).toContain("the store does not answer for the route /b/");
    expect(text(connectionsLines({ ...samples.connections, routes: [], pods: [] }, wide))).toContain(
      "no route limits connections",
    );
  });
});
