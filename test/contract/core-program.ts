/**
 * The conformance program: runs text commands with the functions of `src/core` and returns the result of each.
 * It runs in Node and, compiled to Lua, in LuaJIT and Redis. The same lines must give the same answers.
 */

import type { OnStoreFailure } from "../../src/core/app-limits.js";
import { borrowable, lend, lendable, repayFrom } from "../../src/core/borrow.js";
import { type Bucket, charge, giveBack, refill, waitMs, wholeTokens } from "../../src/core/bucket.js";
import {
  bandwidthProfile,
  type CostProfile,
  checkAge,
  declaredCost,
  deviation,
  estimate,
  iopsProfile,
  isCheckDue,
  type LearnedSizes,
  learnSizes,
  newLearnedSizes,
  payableBytes,
  price,
  settlement,
  standardProfile,
} from "../../src/core/cost.js";
import {
  type Degradation,
  degradationLevel,
  leaseFactor,
  mayWaitForStore,
  newDegradation,
  observeCall,
  pinLevel,
  reportFactor,
  withoutStoreAllowance,
} from "../../src/core/degradation.js";
import {
  BY_NOBODY,
  type Emergency,
  emergencyRatio,
  isActive,
  nextEmergency,
  nextStoppedBursts,
  type StoppedBursts,
  scaled,
  usage,
} from "../../src/core/emergency.js";
import { identify } from "../../src/core/identity.js";
import {
  appKey,
  connectionMember,
  connectionPrefix,
  ledgerKey,
  nodeInEpoch,
  podKey,
  proxyHeartbeatKey,
} from "../../src/core/keys.js";
import { joinValues, splitText } from "../../src/core/platform.js";
import { type LeaseWorld, leaseCommand, newLeaseWorld } from "./core-lease-program.js";
import { platformCommand } from "./core-platform-program.js";
import { refusalCommand } from "./core-refusal-program.js";
import { exact, numberAt, textAt, yesNo } from "./core-text.js";

/** The state that the commands change. It has no clock: a command that needs the time has it as an argument. */
interface World {
  learned: LearnedSizes;
  bucket: Bucket;
  /** The time of the last refill, in microseconds. */
  refilledAt: number;
  emergency: Emergency;
  stopped: StoppedBursts;
  degradation: Degradation;
  leases: LeaseWorld;
}

function newWorld(): World {
  return {
    learned: newLearnedSizes(),
    bucket: { tokens: 0, debt: 0, capacity: 0, held: 0, rate: 0, reserve: 0 },
    refilledAt: 0,
    emergency: { active: false, source: BY_NOBODY, since: 0, until: 0, calmSince: 0 },
    stopped: { since: 0, calmSince: 0 },
    degradation: newDegradation(),
    leases: newLeaseWorld(),
  };
}

function profileNamed(name: string): CostProfile {
  if (name === "iops") return iopsProfile;
  return name === "bandwidth" ? bandwidthProfile : standardProfile;
}

function learnedText({ requestBytes, responseBytes, samples }: LearnedSizes): string {
  return `${exact(requestBytes)} ${exact(responseBytes)} ${exact(samples)}`;
}

function costCommand(world: World, words: string[]): string {
  const command = words[0];
  const first = numberAt(words, 1);
  const second = numberAt(words, 2);
  const third = numberAt(words, 3);
  if (command === "price") return exact(price(profileNamed(textAt(words, 1)), textAt(words, 2), third));
  if (command === "estimate") {
    const profile = profileNamed(textAt(words, 1));
    const declared = exact(declaredCost(profile, textAt(words, 2), third));
    return `${exact(estimate(profile, textAt(words, 2), third, world.learned))} ${declared}`;
  }
  if (command === "payable") return exact(payableBytes(profileNamed(textAt(words, 1)), textAt(words, 2), third));
  if (command === "learn") {
    learnSizes(world.learned, first, second, third);
    return learnedText(world.learned);
  }
  if (command === "age") {
    const due = yesNo(isCheckDue(world.learned, first));
    checkAge(world.learned, first);
    return `${due} ${learnedText(world.learned)}`;
  }
  if (command === "settlement") return `${exact(settlement(first, second))} ${exact(deviation(first, second))}`;
  return "";
}

function bucketText(bucket: Bucket): string {
  return `${exact(bucket.tokens)} ${exact(bucket.debt)}`;
}

function bucketCommand(world: World, words: string[]): string {
  const command = words[0];
  const bucket = world.bucket;
  const amount = numberAt(words, 1);
  if (command === "limits") {
    bucket.capacity = amount;
    bucket.rate = numberAt(words, 2);
    bucket.reserve = numberAt(words, 3);
    bucket.held = numberAt(words, 4);
    return "limits";
  }
  if (command === "level") {
    bucket.tokens = amount;
    bucket.debt = numberAt(words, 2);
    world.refilledAt = numberAt(words, 3);
    return "level";
  }
  if (command === "wait") return `${exact(waitMs(bucket, amount))} ${exact(wholeTokens(bucket.tokens))}`;
  if (command === "borrowable") {
    return `${exact(borrowable(bucket.debt, bucket.rate))} ${exact(lendable(bucket))}`;
  }
  if (command === "usage") return exact(usage(bucket.tokens, bucket.capacity));
  if (command === "repay") return `${exact(repayFrom(bucket, amount))} ${bucketText(bucket)}`;
  if (command === "refill") {
    refill(bucket, amount - world.refilledAt);
    world.refilledAt = amount;
  } else if (command === "charge") charge(bucket, amount);
  else if (command === "give-back") giveBack(bucket, amount);
  else if (command === "lend") lend(bucket, amount);
  else return "";
  return bucketText(bucket);
}

function emergencyCommand(world: World, words: string[]): string {
  const command = words[0];
  const first = numberAt(words, 1);
  if (command === "ratio") {
    const ratio = emergencyRatio(first);
    return `${exact(ratio)} ${exact(scaled(world.bucket.capacity, ratio))} ${exact(scaled(world.bucket.rate, ratio))}`;
  }
  if (command === "emergency") {
    const source = textAt(words, 1);
    const since = numberAt(words, 2);
    const until = numberAt(words, 3);
    world.emergency = { active: source !== BY_NOBODY, source, since, until, calmSince: 0 };
    return "emergency";
  }
  if (command === "next") {
    const now = numberAt(words, 2);
    const stopped = nextStoppedBursts(world.stopped, first, now, numberAt(words, 3));
    const next = nextEmergency(world.emergency, { used: first, stopped, ownShort: true }, now, numberAt(words, 3));
    world.stopped = stopped;
    const times = `${exact(next.since)} ${exact(next.until)} ${exact(next.calmSince)}`;
    world.emergency = next;
    return `${yesNo(isActive(next, now))} ${next.source} ${times} ${exact(stopped.since)} ${exact(stopped.calmSince)}`;
  }
  return "";
}

function degradationCommand(world: World, words: string[]): string {
  const command = words[0];
  const state = world.degradation;
  const first = numberAt(words, 1);
  if (command === "observe") {
    observeCall(state, first, numberAt(words, 2), numberAt(words, 3));
  } else if (command === "pin") {
    pinLevel(state, numberAt(words, 2), numberAt(words, 3));
  } else if (command === "without-store") {
    const { rate, burst } = withoutStoreAllowance(
      { onStoreFailure: textAt(words, 1) as OnStoreFailure, guaranteed: numberAt(words, 3), burst: numberAt(words, 2) },
      { failOpenTokens: undefined, liveNodes: numberAt(words, 4) },
    );
    return `${exact(rate)} ${exact(burst)}`;
  } else if (command !== "health") {
    return "";
  }
  const level = degradationLevel(state, first);
  const factors = `${exact(leaseFactor(level))} ${exact(reportFactor(level))} ${yesNo(mayWaitForStore(level))}`;
  return `${exact(level)} ${exact(state.calmSince)} ${factors}`;
}

function isKnownApp(this: void, app: string): boolean {
  return app === "video" || app === "default";
}

/** `identify trusted refuse-untrusted refuse-unknown app-count user-count key-app app user`; "-" for an empty id. */
function identityCommand(words: string[]): string {
  const ids: string[] = [];
  for (let i = 6; i < 9; i++) ids.push(textAt(words, i) === "-" ? "" : textAt(words, i));
  const identity = identify(
    {
      hopTrusted: words[1] === "yes",
      appHeaderCount: numberAt(words, 4),
      userHeaderCount: numberAt(words, 5),
      apiKeyApp: ids[0]!,
      appHeader: ids[1]!,
      userHeader: ids[2]!,
    },
    { refuseUntrustedHeaders: words[2] === "yes", refuseUnknownApps: words[3] === "yes" },
    isKnownApp,
  );
  return `${identity.code} ${identity.app} ${identity.user}`;
}

function keysCommand(words: string[]): string {
  const cluster = textAt(words, 1);
  const name = textAt(words, 2);
  const prefix = connectionPrefix(textAt(words, 3));
  const keys = [appKey(cluster, name), ledgerKey(cluster, nodeInEpoch(name, cluster)), podKey(prefix, name)];
  keys.push(proxyHeartbeatKey(prefix, connectionMember(cluster, name)));
  return joinValues(keys, " ", 0);
}

function runCommand(world: World, words: string[]): string {
  const command = textAt(words, 0);
  if (command === "identify") return identityCommand(words);
  if (command === "keys") return keysCommand(words);
  let result = platformCommand(words);
  if (result === "") result = refusalCommand(words);
  if (result === "") result = costCommand(world, words);
  if (result === "") result = bucketCommand(world, words);
  if (result === "") result = emergencyCommand(world, words);
  if (result === "") result = degradationCommand(world, words);
  if (result === "") result = leaseCommand(world.leases, words);
  return result === "" ? `no such command: ${command}` : result;
}

/** Returns one answer per line. The line "reset" starts a new history. */
export function runProgram(lines: string[]): string[] {
  const results: string[] = [];
  let world = newWorld();
  for (const line of lines) {
    if (line === "reset") {
      world = newWorld();
      results.push(line);
    } else {
      results.push(runCommand(world, splitText(line, " ")));
    }
  }
  return results;
}
