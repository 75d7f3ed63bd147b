/** Which pods are offered to the store for a new connection, and in which order. */

/** What the host knows about pods that failed lately. */
export interface PodHealth {
  isDown(pod: string): boolean;
}

/** The most pods that one call takes. */
export const MAX_CANDIDATES = 500;

/**
 * The pods that are up, or all pods where none is, without `excluded`. Each `turn` begins with another pod, because of
 * equally loaded pods the store takes the first.
 */
export function candidatePods(pods: string[], turn: number, excluded: string, health: PodHealth): string[] {
  const up: string[] = [];
  const all: string[] = [];
  for (let i = 0; i < pods.length && all.length < MAX_CANDIDATES; i++) {
    const at = turn + i;
    const pod = pods[at - Math.floor(at / pods.length) * pods.length]!;
    if (pod !== excluded) {
      all.push(pod);
      if (!health.isDown(pod)) up.push(pod);
    }
  }
  return up.length > 0 ? up : all;
}
