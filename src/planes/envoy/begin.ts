/** Turns a worker into a node at its first request: Envoy also loads the script in threads that get no requests. */
import type { EnvoyOptions } from "../../config/options/plane-options.js";
import { newEpoch } from "../../engine/epoch.js";
import { type NodeOptions, newNode } from "../../engine/node.js";
import { newCounts } from "../lua/counts.js";
import { luaMath, luaString } from "../lua/library.js";
import { prepareLimits } from "../lua/limit-matches.js";
import { hostAndProcess, processId } from "../lua/node-name.js";
import { recent } from "../lua/recent-refusals.js";
import { nowMs, prepareClock } from "./clock.js";
import { io } from "./envoy-api.js";
import { attributeReader } from "./http/request.js";
import { prepareHeaders } from "./http/response.js";
import { addAccount, type EnvoyAccount, type EnvoyNode, worker } from "./state.js";

export function begin(options: EnvoyOptions): void {
  prepareClock();
  recent.now = nowMs;
  seedRandom();
  const now = nowMs();
  const { lease, timeoutMs, failOpenTokens, workers } = options;
  worker.options = options;
  worker.apps = {};
  worker.byId = {};
  worker.name = `${options.node === "" ? hostAndProcess("envoy") : options.node}-${randomSuffix()}`;
  const host = { timers: false, heartbeats: true, sharers: workers };
  const nodeOptions: NodeOptions = { ...host, lease, timeoutMs, failOpenTokens };
  worker.nodes = [];
  worker.lastContact = 0;
  const epoch = newEpoch(0, now, luaMath.random());
  for (let shard = 0; shard < options.shards; shard++) beginShard(shard, nodeOptions, epoch);
  for (const limits of options.apps) {
    const account = addAccount(limits, now, false);
    account.counts = newCounts();
    worker.apps[limits.id] = account;
  }
  worker.configVersion = "-";
  prepareLimits(options, attributeReader);
  prepareHeaders(options.headers);
  worker.begun = true;
}

function beginShard(shard: number, options: NodeOptions, epoch: number): void {
  const node = newNode<EnvoyAccount>(options, epoch, worker.nodes) as EnvoyNode;
  node.shard = shard;
  node.accounts = [];
  node.syncing = 0;
  node.syncingUntil = 0;
  node.sinceContact = 0;
  node.lookAt = 0;
}

/** Workers start at the same moment: the time alone would give all of them the same seed. */
function seedRandom(): void {
  const source = io.open("/dev/urandom", "rb");
  let seed = nowMs() + processId();
  if (source !== undefined) {
    const bytes = source.read(4);
    source.close();
    for (let i = 1; i <= 4; i++) seed = seed * 256 + luaString.byte(bytes, i);
  }
  luaMath.randomseed(seed);
}

/** Distinguishes the workers of one Envoy, also after a restart. */
function randomSuffix(): string {
  return luaString.format("%04x%04x", luaMath.random(0, 65535), luaMath.random(0, 65535));
}
