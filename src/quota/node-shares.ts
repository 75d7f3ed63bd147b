/**
 * Into how many parts a limit is divided for a node while it decides without the store (`on_store_failure: local`). All nodes of one
 * data plane with its own credentials (`control.planes`) share one part, so that a plane that registers many nodes takes nothing
 * from others. Nodes without such credentials have one part each. The parts of all nodes together are at most the limit.
 */
import { planeOfNode } from "../shared/access/planes.js";
import { systemClock } from "../shared/clock.js";

export interface NodeSharesOptions {
  /** All nodes of the cluster, with their epochs. */
  nodes(): Promise<{ node: string; alive: boolean }[]>;
  /** The names of data planes with their own credentials. */
  planes(): readonly string[];
  /** Milliseconds, monotonic. */
  now?(): number;
}

interface Counted {
  at: number;
  /** Live nodes. */
  nodes: number;
  /** Parts: planes, and nodes that belong to none. */
  parts: number;
  /** Live nodes by plane. */
  ofPlane: ReadonlyMap<string, number>;
}

/** Nodes that left are noticed after this time, … */
const COUNT_MS = 30_000;
/** … and new ones after this time. */
const RECOUNT_MS = 1_000;

export type NodeShares = ReturnType<typeof createNodeShares>;

export function createNodeShares({ nodes, planes, now = systemClock.now }: NodeSharesOptions) {
  let counted: Counted | undefined;
  let names = planes();
  let askedAt = Number.NEGATIVE_INFINITY;

  async function count(): Promise<void> {
    const at = now();
    const live = (await nodes()).filter(({ alive }) => alive);
    const ofPlane = new Map<string, number>();
    for (const { node } of live) {
      const plane = planeOfNode(nameOf(node), names);
      if (plane !== undefined) ofPlane.set(plane, (ofPlane.get(plane) ?? 0) + 1);
    }
    const ofPlanes = [...ofPlane.values()].reduce((sum, one) => sum + one, 0);
    counted = { at, nodes: live.length, parts: live.length - ofPlanes + ofPlane.size, ofPlane };
  }

  return {
    /** @param liveNodes the number in a reply to the node */
    partsFor(node: string, liveNodes: number): number {
      if (planes() !== names) {
        names = planes();
        counted = undefined;
      }
      if (names.length === 0) return liveNodes;
      const time = now();
      const isOld = counted === undefined || liveNodes > counted.nodes || time - counted.at >= COUNT_MS;
      if (isOld && time - askedAt >= RECOUNT_MS) {
        askedAt = time;
        // Without the store, the last count stays; a call that fails is repeated later.
        count().catch(() => {});
      }
      if (counted === undefined) return liveNodes;
      // Whose they are is not known yet.
      const fresh = Math.max(liveNodes - counted.nodes, 0);
      const plane = planeOfNode(node, names);
      if (plane === undefined) return Math.max(counted.parts + fresh, 1);
      const own = counted.ofPlane.get(plane) ?? 0;
      return (counted.parts + fresh + (own === 0 ? 1 : 0)) * (Math.max(own, 1) + fresh);
    },
  };
}

/** Without its epoch. */
function nameOf(node: string): string {
  const end = node.lastIndexOf("@");
  return end < 0 ? node : node.slice(0, end);
}
