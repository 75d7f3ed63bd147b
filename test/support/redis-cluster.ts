/** A real Redis Cluster of three or more primaries with one replica each, with failover and slot migration. */
import { hashSlot } from "../../src/store/redis/client.js";
import { type RedisServer, startRedis } from "./redis-server.js";
import { waitFor } from "./wait-for.js";

export interface ClusterNode extends RedisServer {
  /** Its id in the cluster. */
  id: string;
}

export interface RedisCluster {
  readonly url: string;
  readonly nodes: ClusterNode[];
  /** The primary of the key, according to all running nodes. */
  primaryOf(key: string): Promise<ClusterNode>;
  primaries(): Promise<ClusterNode[]>;
  /** Kills the primary of the key, waits until its replica has taken over, and returns the dead node. */
  killPrimaryOf(key: string): Promise<ClusterNode>;
  /** Stops the primary of the key (SIGSTOP) and waits until its replica has taken over. The caller resumes it. */
  hangPrimaryOf(key: string): Promise<ClusterNode>;
  /** Makes the replica of the key's primary take over while both are alive. */
  switchPrimaryOf(key: string): Promise<void>;
  /** Moves the slot of the key to another primary, one key at a time; `halfway` is called when half of it has moved. */
  migrateSlot(key: string, to: ClusterNode, halfway?: () => Promise<void>): Promise<void>;
  /** Adds a primary without slots and without functions, and waits until all nodes know it. */
  addPrimary(): Promise<ClusterNode>;
  /** Waits until all nodes are up, agree, and every replica follows its primary. */
  settled(): Promise<void>;
  stop(): Promise<void>;
}

const SLOTS = 16_384;

export async function startRedisCluster({
  primaries = 3,
  nodeTimeoutMs = 1_500,
  args = [] as string[],
} = {}): Promise<RedisCluster> {
  const nodeCount = 2 * primaries;
  const started = await Promise.allSettled(Array.from({ length: nodeCount }, () => startNode(nodeTimeoutMs, args)));
  const nodes = started.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const cluster = describeCluster(nodes, () => startNode(nodeTimeoutMs, args));
  try {
    const failed = started.find((one) => one.status === "rejected");
    if (failed) throw failed.reason;
    await join(nodes);
    await cluster.settled();
    return cluster;
  } catch (error) {
    await cluster.stop();
    throw error;
  }
}

async function startNode(nodeTimeoutMs: number, args: string[]): Promise<ClusterNode> {
  const server = await startRedis({
    args: [
      ...["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"],
      ...["--cluster-node-timeout", String(nodeTimeoutMs), "--cluster-replica-validity-factor", "0"],
      // By default, Redis refuses calls on all primaries until the replica of a failed one has taken over.
      ...["--cluster-require-full-coverage", "no"],
      ...["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"],
      ...args,
    ],
  });
  const id = String(await server.command("CLUSTER", "MYID"));
  return Object.defineProperty(server, "id", { value: id }) as ClusterNode;
}

async function join(nodes: ClusterNode[]): Promise<void> {
  const count = nodes.length / 2;
  const primaries = nodes.slice(0, count);
  await Promise.all(
    primaries.map(async (node, i) => {
      const first = Math.ceil((SLOTS * i) / count);
      await node.command("CLUSTER", "ADDSLOTSRANGE", first, Math.ceil((SLOTS * (i + 1)) / count) - 1);
      await node.command("CLUSTER", "SET-CONFIG-EPOCH", i + 1);
    }),
  );
  for (const node of nodes) {
    for (const other of nodes) if (other !== node) await node.command("CLUSTER", "MEET", "127.0.0.1", other.port);
  }
  await untilAllKnown(nodes);
  await Promise.all(
    primaries.map((primary, i) => (nodes[i + count] as ClusterNode).command("CLUSTER", "REPLICATE", primary.id)),
  );
}

async function untilAllKnown(nodes: ClusterNode[]): Promise<void> {
  await waitFor("all nodes to know each other", async () => {
    const known = await Promise.all(nodes.map(async (node) => (await readNodes(node)).filter((one) => one.connected)));
    return known.every((list) => list.length === nodes.length);
  });
}

function describeCluster(nodes: ClusterNode[], start: () => Promise<ClusterNode>): RedisCluster {
  /** Killed or stopped. */
  const away = new Set<ClusterNode>();
  const alive = () => nodes.filter((node) => !away.has(node));
  const byId = (id: string) => nodes.find((node) => node.id === id);

  async function agreed<T>(what: string, look: (view: NodeLine[]) => T | undefined): Promise<T> {
    return waitFor(what, async () => {
      const views = await Promise.all(alive().map(async (node) => look(await readNodes(node))));
      return views.every((view) => view !== undefined && view === views[0]) ? views[0] : undefined;
    });
  }

  async function primaryOf(key: string): Promise<ClusterNode> {
    const slot = hashSlot(key);
    const id = await agreed(`a primary for slot ${slot}`, (view) => view.find((one) => one.serves(slot))?.id);
    return byId(id) as ClusterNode;
  }

  async function replicaOf(primary: ClusterNode): Promise<ClusterNode> {
    const id = await agreed("a replica", (view) => view.find((one) => one.primaryId === primary.id && one.healthy)?.id);
    return byId(id) as ClusterNode;
  }

  async function untilPrimaryChanges(key: string, from: ClusterNode, withinMs = 60_000): Promise<void> {
    await waitFor("the replica to take over", async () => (await primaryOf(key)) !== from, { withinMs });
  }

  const cluster: RedisCluster = {
    url: `redis-cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(",")}`,
    nodes,
    primaryOf,
    async primaries() {
      const found = await agreed("the primaries", (view) =>
        view
          .filter((one) => one.isPrimary && one.healthy)
          .map((one) => one.id)
          .sort()
          .join(),
      );
      return found.split(",").map((id) => byId(id) as ClusterNode);
    },
    async killPrimaryOf(key) {
      const primary = await primaryOf(key);
      await primary.kill();
      away.add(primary);
      await untilPrimaryChanges(key, primary);
      return primary;
    },
    async hangPrimaryOf(key) {
      const primary = await primaryOf(key);
      primary.pause();
      away.add(primary);
      await untilPrimaryChanges(key, primary);
      away.delete(primary);
      return primary;
    },
    async switchPrimaryOf(key) {
      const primary = await primaryOf(key);
      const replica = await replicaOf(primary);
      // For a while after an election the others do not vote for this primary again, so the failover is repeated.
      for (let attempt = 1; (await primaryOf(key)) === primary; attempt++) {
        if (attempt > 10) throw new Error("the replica did not take over");
        await replica.command("CLUSTER", "FAILOVER");
        await untilPrimaryChanges(key, primary, 2_500).catch(() => undefined);
      }
    },
    async migrateSlot(key, to, halfway = async () => undefined) {
      const slot = hashSlot(key);
      const from = await primaryOf(key);
      await to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", from.id);
      await from.command("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id);
      const move = async (keys: string[]) => {
        for (const one of keys) await from.command("MIGRATE", "127.0.0.1", to.port, one, 0, 5_000);
      };
      const keys = (await from.command("CLUSTER", "GETKEYSINSLOT", slot, 1_000)) as string[];
      await move(keys.slice(0, Math.ceil(keys.length / 2)));
      await halfway();
      // New keys are created at the target, so the rest can only shrink.
      for (let left = keys; left.length > 0; ) {
        left = (await from.command("CLUSTER", "GETKEYSINSLOT", slot, 1_000)) as string[];
        await move(left);
      }
      for (const node of [to, from, ...(await cluster.primaries())]) {
        await node.command("CLUSTER", "SETSLOT", slot, "NODE", to.id);
      }
      await waitFor("the slot to have moved", async () => (await primaryOf(key)) === to);
    },
    async addPrimary() {
      const added = await start();
      const [known] = alive() as [ClusterNode];
      nodes.push(added);
      await added.command("CLUSTER", "MEET", "127.0.0.1", known.port);
      await untilAllKnown(alive());
      await waitFor("the new node to see the cluster", async () =>
        String(await added.command("CLUSTER", "INFO")).includes("cluster_state:ok"),
      );
      return added;
    },
    async settled() {
      for (const node of away) {
        await node.restart();
        away.delete(node);
      }
      await waitFor("the cluster to settle", async () => {
        const fine = await Promise.all(nodes.map((node) => isSettled(node, nodes.length)));
        return fine.every(Boolean);
      });
      await cluster.primaries();
    },
    async stop() {
      await Promise.all(nodes.map((node) => node.stop()));
    },
  };
  return cluster;
}

async function isSettled(node: ClusterNode, size: number): Promise<boolean> {
  const state = String(await node.command("CLUSTER", "INFO"));
  const replication = String(await node.command("INFO", "replication"));
  const view = await readNodes(node);
  return (
    state.includes("cluster_state:ok") &&
    view.filter((one) => one.healthy && one.connected).length === size &&
    view.filter((one) => one.isPrimary).length === size / 2 &&
    (replication.includes("role:master") || replication.includes("master_link_status:up")) &&
    (replication.includes("role:slave") || /connected_slaves:[1-9]/.test(replication))
  );
}

interface NodeLine {
  id: string;
  isPrimary: boolean;
  primaryId: string;
  healthy: boolean;
  connected: boolean;
  serves(slot: number): boolean;
}

async function readNodes(node: ClusterNode): Promise<NodeLine[]> {
  const text = String(await node.command("CLUSTER", "NODES"));
  return text
    .trim()
    .split("\n")
    .map((line) => {
      const [id = "", , flags = "", primaryId = "", , , , link, ...slots] = line.split(" ");
      const ranges = slots.filter((range) => !range.startsWith("[")).map((range) => range.split("-").map(Number));
      return {
        id,
        isPrimary: flags.includes("master") && !flags.includes("fail") && ranges.length > 0,
        primaryId,
        healthy: !/fail|handshake|noaddr/.test(flags),
        connected: link === "connected" && !flags.includes("handshake"),
        serves: (slot) => ranges.some(([first = 0, last = first]) => slot >= first && slot <= last),
      };
    });
}
