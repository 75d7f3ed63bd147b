/** A set ordered by score, then by bytes, as in Redis; fast with hundreds of thousands of members. */

export interface ScoredMember {
  member: string;
  score: number;
}

export interface SortedSet {
  readonly scores: Map<string, number>;
  /** All members in order, in non-empty pieces, so that a change moves at most a few hundred entries. */
  readonly pieces: ScoredMember[][];
}

/** A score, `-inf` or `+inf`; exclusive if written with a leading `(`. */
export interface ScoreBound {
  score: number;
  exclusive: boolean;
}

/** A position in the order: piece and index in it. */
type Place = [piece: number, index: number];

const MAX_PIECE = 512;

export function createSortedSet(): SortedSet {
  return { scores: new Map(), pieces: [] };
}

export function putMember(set: SortedSet, member: string, score: number): void {
  removeMember(set, member);
  set.scores.set(member, score);
  const [at, index] = placeOf(set, score, member);
  // After the last piece: append to that piece.
  const piece = set.pieces[at] ?? set.pieces[at - 1];
  if (piece === undefined) {
    set.pieces.push([{ member, score }]);
    return;
  }
  piece.splice(at === set.pieces.length ? piece.length : index, 0, { member, score });
  if (piece.length > MAX_PIECE) {
    set.pieces.splice(set.pieces.indexOf(piece) + 1, 0, piece.splice(MAX_PIECE / 2));
  }
}

export function removeMember(set: SortedSet, member: string): boolean {
  const score = set.scores.get(member);
  if (score === undefined) return false;
  set.scores.delete(member);
  const [at, index] = placeOf(set, score, member);
  set.pieces[at]?.splice(index, 1);
  tidy(set, at);
  return true;
}

export function countBetween(set: SortedSet, from: ScoreBound, to: ScoreBound): number {
  return Math.max(0, rankOf(set, endOf(set, to)) - rankOf(set, startOf(set, from)));
}

export function removeBetween(set: SortedSet, from: ScoreBound, to: ScoreBound): number {
  let [at, index] = startOf(set, from);
  let left = countBetween(set, from, to);
  const count = left;
  while (left > 0) {
    const piece = set.pieces[at] as ScoredMember[];
    const removed = piece.splice(index, left);
    for (const { member } of removed) set.scores.delete(member);
    left -= removed.length;
    if (piece.length === 0) set.pieces.splice(at, 1);
    else at++;
    index = 0;
  }
  tidy(set, at);
  return count;
}

/** The members with ranks from `first` up to, but not including, `end`. */
export function membersBetween(set: SortedSet, first: number, end: number): ScoredMember[] {
  const found: ScoredMember[] = [];
  let rank = 0;
  for (const piece of set.pieces) {
    if (rank >= end) break;
    if (rank + piece.length > first) found.push(...piece.slice(Math.max(0, first - rank), end - rank));
    rank += piece.length;
  }
  return found;
}

/** Compares UTF-8 bytes, as Redis does. Their order is that of code points, not of UTF-16 units. */
export function compareBytes(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const left = a.charCodeAt(i);
    const right = b.charCodeAt(i);
    if (left !== right) return codePointRank(left) - codePointRank(right);
  }
  return a.length - b.length;
}

/** Surrogates encode code points above U+FFFF, so they sort after every other unit. */
function codePointRank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}

function placeOf(set: SortedSet, score: number, member: string): Place {
  return firstWhere(
    set,
    (entry) => entry.score > score || (entry.score === score && compareBytes(entry.member, member) >= 0),
  );
}

function startOf(set: SortedSet, from: ScoreBound): Place {
  return firstWhere(set, ({ score }) => (from.exclusive ? score > from.score : score >= from.score));
}

function endOf(set: SortedSet, to: ScoreBound): Place {
  return firstWhere(set, ({ score }) => (to.exclusive ? score >= to.score : score > to.score));
}

function rankOf(set: SortedSet, [at, index]: Place): number {
  let rank = index;
  for (let i = 0; i < at; i++) rank += (set.pieces[i] as ScoredMember[]).length;
  return rank;
}

/** The first position where `holds` is true; `holds` must be false before it and true after it. */
function firstWhere(set: SortedSet, holds: (entry: ScoredMember) => boolean): Place {
  const at = lowest(set.pieces.length, (i) => {
    const piece = set.pieces[i] as ScoredMember[];
    return holds(piece[piece.length - 1] as ScoredMember);
  });
  const piece = set.pieces[at];
  return [at, piece === undefined ? 0 : lowest(piece.length, (i) => holds(piece[i] as ScoredMember))];
}

function lowest(length: number, holds: (index: number) => boolean): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Joins small pieces, to limit their number; also removes an empty one. */
function tidy(set: SortedSet, at: number): void {
  const piece = set.pieces[at];
  const next = set.pieces[at + 1];
  if (piece?.length === 0) set.pieces.splice(at, 1);
  else if (piece && next && piece.length + next.length <= MAX_PIECE / 2) set.pieces.splice(at, 2, [...piece, ...next]);
}
