/** Starts a Lua plane: in each Lua state, from the options and from what is left in shared memory by an earlier one. */
import type { PlaneOptions } from "../../../config/options/plane-options.js";
import type { AppLimits } from "../../../core/app-limits.js";
import { splitText } from "../../../core/platform.js";
import { newEpoch } from "../../../engine/epoch.js";
import { activate } from "../../../engine/node.js";
import { overflowId } from "../../../limit-rules/limit-rules.js";
import { type LuaHost, nowMs, running } from "../host.js";
import { luaMath, luaTable } from "../library.js";
import { type AttributeReader, limitRules, prepareLimits } from "../limit-matches.js";
import { hostAndProcess } from "../node-name.js";
import { recent } from "../recent-refusals.js";
import { prepareSystemClock } from "../system-clock.js";
import { catchUp } from "./changes.js";
import { readAccount, readNode, writeNode } from "./records.js";
import { newPlaneAccount, newPlaneNodes, type PlaneAccount, worker } from "./state.js";
import { formerLimits } from "./values.js";

const NAME = "name";
const APPS = "apps";

/** Before anything else. The random numbers of Lua are seeded. */
export function startPlane(host: LuaHost, options: PlaneOptions, reader: AttributeReader): void {
  const dict = host.memory;
  running.host = host;
  worker.dict = dict;
  worker.options = options;
  worker.apps = {};
  worker.accounts = [];
  worker.nodes = newPlaneNodes(options);
  recent.now = nowMs;
  prepareSystemClock();
  dict.safe_add(NAME, options.node === "" ? hostAndProcess(host.plane) : options.node);
  worker.name = dict.get(NAME) as string;
  worker.byId = {};
  prepareLimits(options, reader);
  for (const limits of options.apps) worker.apps[limits.id] = addApp(limits);
  // Values for which there is no room share one bucket per limit.
  for (const { name, limits } of limitRules()) addApp({ ...limits, id: overflowId(name) });
  addFormerApps();
  const epoch = newEpoch(0, nowMs(), luaMath.random());
  for (const node of worker.nodes) {
    if (!readNode(node)) {
      node.epoch = epoch;
      writeNode(node);
    }
  }
}

function addApp(limits: AppLimits): PlaneAccount {
  const account = newPlaneAccount(limits, nowMs());
  worker.byId[limits.id] = account;
  worker.accounts.push(account);
  return account;
}

/**
 * Apps of an earlier configuration may still hold tokens. They stay in the list, because their counters must continue if
 * they are configured again in the same epoch.
 */
function addFormerApps(): void {
  const { dict } = worker;
  const listed = dict.get(APPS);
  if (listed !== undefined) {
    for (const id of splitText(listed as string, " ")) {
      if (worker.byId[id] === undefined) {
        addApp(formerLimits(id)).leaving = true;
      }
    }
  }
  const ids: string[] = [];
  for (const { limits } of worker.accounts) ids.push(limits.id);
  dict.safe_set(APPS, luaTable.concat(ids, " "));
}

/** In each worker, also in one that replaces a dead one and has to report for it. */
export function beginWorker(): void {
  for (const node of worker.nodes) {
    catchUp(node);
    node.clock = nowMs();
    for (const account of node.accounts) {
      readAccount(account);
      activate(node, account);
    }
    node.failuresSeen = node.failures;
  }
}

/** Regularly, in each worker. */
export function catchUpAll(): void {
  for (const node of worker.nodes) {
    catchUp(node);
    // Another worker may be the one that plans messages.
    node.clock = nowMs();
  }
}
