/** Alternating rounds: A B A B …, so that whatever else the machine does meets both sides alike. */

export function median(values: number[]): number {
  if (values.length === 0) throw new Error("there is no median of nothing");
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Both sides of each round. One round before them warms up and is not counted. */
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
