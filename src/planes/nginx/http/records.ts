/** Leases and the node itself as texts in shared memory: written by who holds the lock, read by all workers. */
import { QUOTA_EXHAUSTED } from "../../../core/codes.js";
import { splitText, storedNumber } from "../../../core/platform.js";
import { luaString, luaTable } from "../../lua/library.js";
import { ngx } from "../ngx.js";
import { type NginxAccount, worker } from "../state.js";

/** All digits, so that what is read is what was written. */
function exact(value: number): string {
  return luaString.format("%.17g", value);
}

function yesNo(value: boolean): string {
  return value ? "1" : "0";
}

/** Keeps only what fits: a full dictionary is said aloud, since the limits would no longer be right after a reload. */
function write(key: string, text: string): void {
  const [stored, problem] = worker.dict.safe_set(key, text);
  if (stored !== true) ngx.log(ngx.ERR, "tollgate: shared memory is too small for ", key, ": ", problem ?? "");
}

export function writeApp(app: NginxAccount): void {
  const { lease, sync } = app;
  const text = luaTable.concat(
    [
      exact(lease.granted),
      exact(lease.returned),
      exact(lease.target),
      exact(lease.spendRate),
      exact(lease.spentAtReport),
      exact(lease.reportedAt),
      exact(lease.activeAt),
      exact(lease.refusedAt),
      exact(lease.refusedCost),
      lease.refusedCode,
      exact(sync.bookedSpent),
      exact(sync.bookedReturned),
      yesNo(sync.cautious),
      exact(sync.remaining),
      exact(sync.limit),
      exact(sync.heardAt),
      exact(sync.scarceAt),
      yesNo(sync.unanswered),
      sync.shortCode,
    ],
    " ",
  );
  if (text !== app.record) {
    app.record = text;
    write(app.recordKey, text);
  }
  // On its own: whoever gives tokens back ends a refusal without the lock.
  worker.dict.safe_set(app.refusedUntilKey, lease.refusedUntil);
}

/** Nothing is read where the text is the one that was read before. */
export function readApp(app: NginxAccount): void {
  const { lease, sync } = app;
  const text = worker.dict.get(app.recordKey);
  readRefusedUntil(app);
  if (text === undefined || text === app.record) return;
  const parts = splitText(text as string, " ");
  app.record = text as string;
  app.cell.seen = 0;
  lease.granted = storedNumber(parts[0]!, 0);
  lease.returned = storedNumber(parts[1]!, 0);
  lease.target = storedNumber(parts[2]!, 1);
  lease.spendRate = storedNumber(parts[3]!, -1);
  lease.spentAtReport = storedNumber(parts[4]!, 0);
  lease.reportedAt = storedNumber(parts[5]!, 0);
  lease.activeAt = storedNumber(parts[6]!, 0);
  lease.refusedAt = storedNumber(parts[7]!, 0);
  lease.refusedCost = storedNumber(parts[8]!, 0);
  lease.refusedCode = parts[9]!;
  sync.bookedSpent = storedNumber(parts[10]!, 0);
  sync.bookedReturned = storedNumber(parts[11]!, 0);
  sync.cautious = parts[12] === "1";
  sync.remaining = storedNumber(parts[13]!, 0);
  sync.limit = storedNumber(parts[14]!, 0);
  sync.heardAt = storedNumber(parts[15]!, 0);
  sync.scarceAt = storedNumber(parts[16]!, 0);
  // Written by a version of before a reload, it may end here.
  sync.unanswered = parts[17] === "1";
  sync.shortCode = parts[18] ?? QUOTA_EXHAUSTED;
}

export function readRefusedUntil(app: NginxAccount): void {
  const until = worker.dict.get(app.refusedUntilKey);
  app.lease.refusedUntil = until === undefined ? 0 : (until as number);
}

const NODE = "node";
const DEGRADATION = "degradation";

export function writeNode(): void {
  const { node, degradation } = worker;
  const text = luaTable.concat(
    [
      exact(node.epoch),
      exact(node.seq),
      exact(node.failuresInARow),
      exact(node.failures),
      exact(node.syncs),
      exact(node.retryAt),
      exact(node.lastContact),
      exact(node.liveNodes),
      yesNo(node.emergency),
      exact(node.service),
      node.configVersion,
    ],
    " ",
  );
  worker.nodeText = text;
  write(NODE, text);
  const parts = [
    exact(degradation.level),
    exact(degradation.calmSince),
    exact(degradation.pinnedLevel),
    exact(degradation.pinnedUntil),
  ];
  for (const slot of degradation.slots) {
    parts.push(exact(slot.index));
    parts.push(exact(slot.calls));
    parts.push(exact(slot.errors));
    parts.push(exact(slot.timeouts));
    parts.push(exact(slot.latencyMs));
  }
  worker.degradationText = luaTable.concat(parts, " ");
  write(DEGRADATION, worker.degradationText);
}

/** False where nothing was ever written. */
export function readNode(): boolean {
  const { node, dict } = worker;
  const text = dict.get(NODE);
  if (text === undefined) return false;
  if (text !== worker.nodeText) {
    worker.nodeText = text as string;
    const parts = splitText(text as string, " ");
    node.epoch = storedNumber(parts[0]!, 0);
    node.seq = storedNumber(parts[1]!, 0);
    node.failuresInARow = storedNumber(parts[2]!, 0);
    node.failures = storedNumber(parts[3]!, 0);
    node.syncs = storedNumber(parts[4]!, 0);
    node.retryAt = storedNumber(parts[5]!, 0);
    node.lastContact = storedNumber(parts[6]!, 0);
    node.liveNodes = storedNumber(parts[7]!, 1);
    node.emergency = parts[8] === "1";
    node.service = storedNumber(parts[9]!, 0);
    node.configVersion = parts[10]!;
  }
  const measured = dict.get(DEGRADATION);
  if (measured !== undefined && measured !== worker.degradationText) readDegradation(measured as string);
  return true;
}

function readDegradation(text: string): void {
  const { degradation } = worker;
  worker.degradationText = text;
  const parts = splitText(text, " ");
  degradation.level = storedNumber(parts[0]!, 0);
  degradation.calmSince = storedNumber(parts[1]!, -1);
  degradation.pinnedLevel = storedNumber(parts[2]!, 0);
  degradation.pinnedUntil = storedNumber(parts[3]!, 0);
  let at = 4;
  for (const slot of degradation.slots) {
    slot.index = storedNumber(parts[at]!, -1);
    slot.calls = storedNumber(parts[at + 1]!, 0);
    slot.errors = storedNumber(parts[at + 2]!, 0);
    slot.timeouts = storedNumber(parts[at + 3]!, 0);
    slot.latencyMs = storedNumber(parts[at + 4]!, 0);
    at = at + 5;
  }
}
