/**
 * Reconciles one app with its nodes: returns the tokens of dead nodes, and corrects the app when more or fewer tokens
 * are granted than the ledgers of the nodes show.
 *
 * KEYS  1 cluster · 2 app · 3 nodes · 4 saved reply of this operation · 5… ledger of each known node
 * ARGV  1 cluster capacity · 2 cluster rate (micro-tokens/s) · 3 node time-to-live (ms) · 4 shards
 *       id · burst · guaranteed (micro-tokens/s) · priority · fill (µs)
 *       tolerated drift (millionths) · force (0, or 1: correct any drift) · node@epoch of each ledger
 * Reply code · corrections made · drift before (millionths) · drift after (millionths)
 *       expected tokens · actual tokens · correction (tokens, may be negative)
 *       returned from dead nodes (tokens) · dead nodes
 *
 * The ledgers must be those of all nodes that `nodes` lists. If a node was added or removed since, the reply is
 * stale_message and nothing changes: list the nodes again.
 * A repeated operation that changed something gets the same reply; a later operation finds nothing to correct.
 */
import { MICRO } from "../core/bucket.js";
import { OK, STALE_MESSAGE } from "../core/codes.js";
import { storedNumber } from "../core/platform.js";
import {
  type App,
  chargeApp,
  configuredCapacity,
  cutOwn,
  LIMIT_NUMBERS,
  readApp,
  returnToApp,
  writeApp,
} from "./common/app.js";
import { afterAppCall, readAppCall } from "./common/app-call.js";
import { CLUSTER_ARGUMENTS, type Cluster, isAlive, isWithin, readCluster, writeCluster } from "./common/cluster.js";
import { returnTokens } from "./common/counters.js";
import { payBack, payUpTo, setHeld } from "./common/l1.js";
import {
  heldTokens,
  LEDGER_RETENTION_MS,
  paidAndHeld,
  readLedger,
  returnedField,
  writeUnpaid,
} from "./common/ledger.js";
import { invalid } from "./common/message.js";
import { savedReply, saveReply } from "./common/saved-reply.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

const FIRST_LEDGER = 4;
const TOLERANCE = LIMIT_NUMBERS;
const FORCE = LIMIT_NUMBERS + 1;

interface Buckets {
  app: App;
  cluster: Cluster;
}

interface Census {
  /** Tokens of this app that live nodes hold. */
  held: number;
  /** Those of them that L1 has paid. */
  paid: number;
  /** Tokens returned from dead nodes, and the number of these nodes. */
  recovered: number;
  recoveredFrom: number;
  dead: number;
}

/** True when the ledgers are those of all nodes: a missing node would look like a leak. */
function coversAllNodes(redis: RedisApi, keys: string[], argv: string[]): boolean {
  const given = keys.length - FIRST_LEDGER;
  if (redis.call("ZCARD", keys[2]!) !== given) return false;
  for (let i = 0; i < given; i++) {
    if (redis.call("ZSCORE", keys[2]!, argv[afterAppCall(2) + i]!) === false) return false;
  }
  return true;
}

/** Counts what live nodes hold, returns the tokens of dead nodes and closes their epochs. */
function census(redis: RedisApi, keys: string[], argv: string[], { app, cluster }: Buckets): Census {
  const id = argv[CLUSTER_ARGUMENTS]!;
  const result: Census = { held: 0, paid: 0, recovered: 0, recoveredFrom: 0, dead: 0 };
  for (let i = 0; i < keys.length - FIRST_LEDGER; i++) {
    const key = keys[FIRST_LEDGER + i]!;
    const node = argv[afterAppCall(2) + i]!;
    const ledger = readLedger(redis, key, [id]);
    const entry = ledger.entries[0]!;
    const held = heldTokens(entry);
    const silent = cluster.clock - storedNumber(redis.call("ZSCORE", keys[2]!, node), 0);
    if (isAlive(silent, cluster)) {
      result.held = result.held + held;
      result.paid = result.paid + paidAndHeld(entry);
    } else if (ledger.known) {
      result.dead = result.dead + 1;
      if (held > 0) {
        returnTokens(cluster, entry, app, held);
        result.recovered = result.recovered + held;
        result.recoveredFrom = result.recoveredFrom + 1;
        redis.call("HSET", key, returnedField(id), entry.returned, "held", ledger.held - held);
        writeUnpaid(ledger, entry);
      }
      redis.call("HSET", key, "closed", "1");
      // Its last app, or one that is no longer reconciled: the node is removed, and its ledger expires.
      if (ledger.held - held === 0 || silent > LEDGER_RETENTION_MS * 1000) {
        redis.call("ZREM", keys[2]!, node);
        redis.call("PEXPIRE", key, LEDGER_RETENTION_MS);
      }
    } else {
      result.dead = result.dead + 1;
      redis.call("ZREM", keys[2]!, node);
    }
  }
  return result;
}

/** L1 counts what nodes hold of the app by their ledgers, at most a burst. For more than it counted before, it pays. */
function countHeld({ app, cluster }: Buckets, paid: number, leaked: number): void {
  if (app.isLimit) return;
  const missing = Math.min(paid, app.burst) - app.l1Held;
  if (missing > 0) {
    payUpTo(app, cluster, missing);
    return;
  }
  setHeld(app, cluster, app.l1Held + missing);
  payBack(app, cluster, Math.min(0 - missing, leaked));
}

/** Drift relative to the expected level, in millionths. For an empty bucket: relative to its capacity. */
function driftOf(leaked: number, expected: number, capacity: number): number {
  const whole = expected > 0 ? expected : Math.max(capacity / MICRO, 1);
  return Math.floor(Math.min(Math.abs(leaked) / whole, 1) * MICRO);
}

export function reconcile(redis: RedisApi, keys: string[], argv: string[]): ScriptReply {
  if (keys.length < FIRST_LEDGER) return invalid("keys");
  const { fault, limits, request } = readAppCall(argv, 2, keys.length - FIRST_LEDGER);
  if (fault !== "") return invalid(fault);
  if (!isWithin(request[TOLERANCE]!, 0, MICRO)) return invalid("tolerance");
  if (!isWithin(request[FORCE]!, 0, 1)) return invalid("force");
  const before = savedReply(redis, keys[3]!);
  if (before.length > 0) return before;
  if (!coversAllNodes(redis, keys, argv)) return [STALE_MESSAGE];

  const cluster = readCluster(redis, keys[0]!, limits);
  const app = readApp(redis, keys[1]!, request, cluster);
  cutOwn(app);
  const found = census(redis, keys, argv, { app, cluster });
  const leaked = app.granted - app.spent - app.returned - found.held;
  const actual = Math.floor(app.tokens / MICRO);
  const expected = Math.min(actual + leaked, Math.floor(app.capacity / MICRO));
  const drift = driftOf(leaked, expected, configuredCapacity(request));
  const corrects = leaked !== 0 && (request[FORCE] === 1 || drift > request[TOLERANCE]!);
  if (corrects && leaked > 0) returnToApp(app, leaked);
  if (corrects && leaked < 0) chargeApp(app, 0 - leaked);
  countHeld({ app, cluster }, found.paid, corrects ? Math.max(leaked, 0) : 0);
  // An app without a key is full: there is nothing to write, and an expired limit stays expired.
  if (corrects || redis.call("EXISTS", keys[1]!) === 1) writeApp(redis, keys[1]!, app, request);
  writeCluster(redis, keys[0]!, cluster);
  const corrections = found.recoveredFrom + (corrects ? 1 : 0);
  const reply: ScriptReply = [
    OK,
    corrections,
    drift,
    corrects ? 0 : drift,
    expected,
    actual,
    corrects ? leaked : 0,
    found.recovered,
    found.dead,
  ];
  // A round calls this for every app and rarely changes one: where nothing changed, a repeated call finds the same.
  return corrections > 0 || found.dead > 0 ? saveReply(redis, keys[3]!, reply) : reply;
}
