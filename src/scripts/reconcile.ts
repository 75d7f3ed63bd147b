/**
 * Reconciles one app with its nodes: returns the tokens of dead nodes, and corrects the app when more or fewer tokens
 * are granted than the ledgers of the nodes show.
 *
 * The ledgers must be those of all nodes that `nodes` lists. If a node was added or removed since, the reply is
 * stale_message and nothing changes: list the nodes again.
 * A repeated operation that changed something gets the same reply; a later operation finds nothing to correct.
 */
import { MICRO } from "../core/bucket.js";
import { OK, STALE_MESSAGE } from "../core/codes.js";
import { storedNumber } from "../core/platform.js";
import {
  APP,
  type App,
  chargeApp,
  checkApp,
  configuredCapacity,
  cutOwn,
  readApp,
  returnToApp,
  writeApp,
} from "./common/app.js";
import { CLUSTER, type Cluster, isAlive, isWithin, readCluster, writeCluster } from "./common/cluster.js";
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
import { savedReply, saveReply } from "./common/saved-reply.js";
import { flag, invalid, micro, operation, type ReplyOf, readCall, text } from "./operation.js";
import type { RedisApi, ScriptReply } from "./redis-api.js";

/**
 * `tolerance` is in millionths, and `force` corrects any drift. The items are the nodes of the ledgers. `correction` may be negative.
 * `recoveredTokens`: what was returned from dead nodes.
 */
export const RECONCILE = operation({
  keys: ["cluster", "app", "nodes", "operation"],
  moreKeys: "ledger",
  arguments: [CLUSTER, APP, ["tolerance", flag("force")]],
  itemArguments: [[text("node")]],
  reply: [
    text("code"),
    "correctionsMade",
    micro("driftBefore"),
    micro("driftAfter"),
    "expectedTokens",
    "actualTokens",
    "correction",
    "recoveredTokens",
    "deadNodes",
  ],
});

/** A known node in its epoch, and its ledger. */
interface ListedNode {
  node: string;
  ledgerKey: string;
}

interface Buckets {
  /** The app. */
  id: string;
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
function coversAllNodes(redis: RedisApi, nodesKey: string, listed: ListedNode[]): boolean {
  if (redis.call("ZCARD", nodesKey) !== listed.length) return false;
  for (const { node } of listed) if (redis.call("ZSCORE", nodesKey, node) === false) return false;
  return true;
}

/** Counts what live nodes hold, returns the tokens of dead nodes and closes their epochs. */
function census(redis: RedisApi, nodesKey: string, listed: ListedNode[], { id, app, cluster }: Buckets): Census {
  const result: Census = { held: 0, paid: 0, recovered: 0, recoveredFrom: 0, dead: 0 };
  for (const { node, ledgerKey: key } of listed) {
    const ledger = readLedger(redis, key, [id]);
    const entry = ledger.entries[0]!;
    const held = heldTokens(entry);
    const silent = cluster.clock - storedNumber(redis.call("ZSCORE", nodesKey, node), 0);
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
        redis.call("ZREM", nodesKey, node);
        redis.call("PEXPIRE", key, LEDGER_RETENTION_MS);
      }
    } else {
      result.dead = result.dead + 1;
      redis.call("ZREM", nodesKey, node);
    }
  }
  return result;
}

/** L1 counts what nodes hold of the app by their ledgers, at most a burst. For more than it counted before, it pays. */
function countHeld({ app, cluster }: Omit<Buckets, "id">, paid: number, leaked: number): void {
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
  const { fault, key, moreKeys, values, itemsAt } = checkApp(readCall(RECONCILE, keys, argv));
  if (fault !== "") return invalid(fault);
  const { id, tolerance, force } = values;
  if (argv.length - itemsAt !== moreKeys.length) return invalid("arguments");
  if (!isWithin(tolerance, 0, MICRO)) return invalid("tolerance");
  if (!isWithin(force, 0, 1)) return invalid("force");
  const before = savedReply(redis, key.operation);
  if (before.length > 0) return before;
  const listed: ListedNode[] = [];
  for (let i = 0; i < moreKeys.length; i++) listed.push({ node: argv[itemsAt + i]!, ledgerKey: moreKeys[i]! });
  if (!coversAllNodes(redis, key.nodes, listed)) return [STALE_MESSAGE];

  const cluster = readCluster(redis, key.cluster, values);
  const app = readApp(redis, key.app, values, cluster);
  cutOwn(app);
  const found = census(redis, key.nodes, listed, { id, app, cluster });
  const leaked = app.granted - app.spent - app.returned - found.held;
  const actual = Math.floor(app.tokens / MICRO);
  const expected = Math.min(actual + leaked, Math.floor(app.capacity / MICRO));
  const drift = driftOf(leaked, expected, configuredCapacity(values));
  const corrects = leaked !== 0 && (force === 1 || drift > tolerance);
  if (corrects && leaked > 0) returnToApp(app, leaked);
  if (corrects && leaked < 0) chargeApp(app, 0 - leaked);
  countHeld({ app, cluster }, found.paid, corrects ? Math.max(leaked, 0) : 0);
  // An app without a key is full: there is nothing to write, and an expired limit stays expired.
  if (corrects || redis.call("EXISTS", key.app) === 1) writeApp(redis, key.app, app, values);
  writeCluster(redis, key.cluster, cluster);
  const corrections = found.recoveredFrom + (corrects ? 1 : 0);
  const reply: ReplyOf<typeof RECONCILE> = [
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
  return corrections > 0 || found.dead > 0 ? saveReply(redis, key.operation, reply) : reply;
}
