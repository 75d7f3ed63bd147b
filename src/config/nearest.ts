/** Finds the known name that is closest to a misspelt one. */

/** The known name with the fewest edits, if they are few for its length. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const wanted = name.slice(0, 64).toLowerCase();
  let best: string | undefined;
  let fewest = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const candidate of known) {
    const edits = distance(wanted, candidate.toLowerCase());
    if (edits < fewest) {
      fewest = edits;
      best = candidate;
    }
  }
  return best;
}

/** "; did you mean …?" for an error message; empty if no name is close. */
export function didYouMean(name: string, known: readonly string[]): string {
  const likely = nearest(name, known);
  return likely === undefined ? "" : `; did you mean ${likely}?`;
}

const MOST_LISTED = 10;

/** The known names, and the one that was probably meant, for an error message. */
export function knownNames(name: string, known: readonly string[]): string {
  if (known.length === 0) return "; none are configured";
  const more = known.length > MOST_LISTED ? `, and ${known.length - MOST_LISTED} more` : "";
  return `: ${known.slice(0, MOST_LISTED).join(", ")}${more}${didYouMean(name, known)}`;
}

export function unknownName(name: string, known: readonly string[]): string {
  return `unknown option${didYouMean(name, known) || `; known options: ${known.join(", ")}`}`;
}

/** Damerau-Levenshtein distance. */
function distance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let edits = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        edits = Math.min(edits, beforeLast[j - 2]! + 1);
      row.push(edits);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length]!;
}
