/** Alternating rounds A B A B …, so that other load on the machine affects both variants alike. */

export function median(values: number[]): number {
  if (values.length === 0) throw new Error("no values to take the median of");
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** The results of both variants per round. The first round warms up and is not counted. */
export async function alternate<A, B>(
  rounds: number,
  a: () => A | Promise<A>,
  b: () => B | Promise<B>,
): Promise<[A, B][]> {
  const pairs: [A, B][] = [];
  for (let round = 0; round <= rounds; round++) {
    const pair: [A, B] = [await a(), await b()];
    if (round > 0) pairs.push(pair);
  }
  return pairs;
}
