/** ZADD, ZREM, ZCARD, ZSCORE, ZCOUNT, ZREMRANGEBYSCORE, ZRANGE, as Redis answers them to a script. */
import { argument, expectArguments, valueAt } from "./arguments.js";
import type { Command, Keys } from "./keyspace.js";
import { CommandError, numberText, parseBound, parseScore, parseWhole } from "./numbers.js";
import {
  countBetween,
  createSortedSet,
  membersBetween,
  putMember,
  removeBetween,
  removeMember,
  type SortedSet,
} from "./sorted-set.js";

export const sortedSetCommands: Record<string, Command> = {
  ZADD(keys, args) {
    expectArguments(args, 3, 4);
    const key = argument(args, 0);
    const condition = args.length === 4 ? argument(args, 1) : "";
    if (condition !== "" && condition !== "XX" && condition !== "NX") throw new CommandError("ERR syntax error");
    const score = parseScore(argument(args, args.length - 2));
    const member = argument(args, args.length - 1);
    const existing = setOf(keys, key);
    const before = existing?.scores.get(member);
    if (condition === (before === undefined ? "XX" : "NX")) return 0;
    const set = existing ?? createSortedSet();
    if (existing === undefined) keys.put(key, { type: "zset", set });
    // A score that stays the same keeps its place and its sign of zero, as in Redis.
    if (before !== score) putMember(set, member, score);
    return before === undefined ? 1 : 0;
  },

  ZREM(keys, args) {
    expectArguments(args, 2, 2);
    const key = argument(args, 0);
    const set = setOf(keys, key);
    if (set === undefined || !removeMember(set, argument(args, 1))) return 0;
    dropIfEmpty(keys, key, set);
    return 1;
  },

  ZCARD(keys, args) {
    expectArguments(args, 1, 1);
    return setOf(keys, argument(args, 0))?.scores.size ?? 0;
  },

  ZSCORE(keys, args) {
    expectArguments(args, 2, 2);
    const score = setOf(keys, argument(args, 0))?.scores.get(argument(args, 1));
    return score === undefined ? false : numberText(score);
  },

  ZCOUNT(keys, args) {
    expectArguments(args, 3, 3);
    const from = parseBound(argument(args, 1));
    const to = parseBound(argument(args, 2));
    const set = setOf(keys, argument(args, 0));
    return set === undefined ? 0 : countBetween(set, from, to);
  },

  ZREMRANGEBYSCORE(keys, args) {
    expectArguments(args, 3, 3);
    const key = argument(args, 0);
    const from = parseBound(argument(args, 1));
    const to = parseBound(argument(args, 2));
    const set = setOf(keys, key);
    if (set === undefined) return 0;
    const removed = removeBetween(set, from, to);
    dropIfEmpty(keys, key, set);
    return removed;
  },

  ZRANGE(keys, args) {
    expectArguments(args, 3, 4);
    const withScores = args.length === 4;
    if (withScores && args[3] !== "WITHSCORES") throw new CommandError("ERR syntax error");
    const first = parseWhole(argument(args, 1));
    const last = parseWhole(argument(args, 2));
    const set = setOf(keys, argument(args, 0));
    if (set === undefined) return [];
    // -1 is the last member, -2 the one before it.
    const start = Math.max(0, fromEnd(first, set.scores.size));
    const chosen = membersBetween(set, start, fromEnd(last, set.scores.size) + 1);
    return chosen.flatMap(({ member, score }) => (withScores ? [member, numberText(score)] : [member]));
  },
};

function setOf(keys: Keys, key: string): SortedSet | undefined {
  return valueAt(keys, key, "zset")?.set;
}

function dropIfEmpty(keys: Keys, key: string, set: SortedSet): void {
  if (set.scores.size === 0) keys.delete(key);
}

function fromEnd(index: bigint, length: number): number {
  return index < 0n ? Number(index) + length : Number(index);
}
