/** Nodes and planes: who is live, what they hold, and how they are. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Nodes, PlaneNode, State } from "../../../src/service/dashboard/contract.js";
import { ago, count, NONE, plural, short } from "../format.js";
import { Badge, Banner, Card, Empty, PageHead, Search, Tile } from "../parts/parts.js";
import { LiveBadge, Table } from "../parts/table.js";

const SHOWN = 100;

export function NodesView({ state, waiting }: { state: State; waiting: ComponentChildren }) {
  return (
    <>
      <PageHead title="Nodes and planes" />
      {state.nodes === undefined ? (
        waiting
      ) : (
        <NodeList nodes={state.nodes} version={state.overview.status.config_version} />
      )}
    </>
  );
}

function NodeList({ nodes: { nodes, partial }, version }: { nodes: Nodes; version: string }) {
  const [search, setSearch] = useState("");
  const [shown, setShown] = useState(SHOWN);
  const silent = nodes.filter(({ alive }) => !alive);
  const found = nodes
    .filter(({ node_id, kind }) => node_id.includes(search) || kind.includes(search))
    .sort(
      (one, other) =>
        Number(one.alive) - Number(other.alive) || other.held - one.held || (one.node_id < other.node_id ? -1 : 1),
    );
  const of = (kind: string) => nodes.filter((node) => node.kind === kind).length;
  return (
    <>
      {partial && (
        <Banner tone="bad" title="The store does not answer">
          Only the nodes that report to this service are listed.
        </Banner>
      )}
      <dl class="tiles">
        <Tile
          label="Live nodes"
          value={count(nodes.length - silent.length)}
          note={`${of("node")} Node, ${of("nginx")} nginx, ${of("envoy")} Envoy here`}
        />
        <Tile
          label="Silent nodes"
          value={count(silent.length)}
          tone={silent.length > 0 ? "warn" : "neutral"}
          note="their tokens return at reconciliation"
        />
        <Tile
          label="Tokens on leases"
          value={short(nodes.reduce((sum, { held }) => sum + held, 0))}
          note="over all apps"
        />
      </dl>
      <Card
        title={plural(found.length, "node")}
        action={<Search label="Search nodes" placeholder="Search nodes" value={search} changed={setSearch} />}
      >
        {found.length === 0 ? (
          <Empty icon="nodes" title="No node matches" />
        ) : (
          <>
            <NodeTable nodes={found.slice(0, shown)} version={version} />
            {found.length > shown && (
              <button type="button" class="secondary more" onClick={() => setShown(shown + SHOWN)}>
                Show {count(Math.min(SHOWN, found.length - shown))} more
              </button>
            )}
          </>
        )}
      </Card>
    </>
  );
}

const kinds: Record<string, string> = { node: "Node", nginx: "nginx", envoy: "Envoy", "": "other service" };

function NodeTable({ nodes, version }: { nodes: PlaneNode[]; version: string }) {
  return (
    <Table
      rows={nodes}
      keyOf={({ node_id }) => node_id}
      columns={[
        { title: "Node", class: "id", cell: ({ node_id }) => node_id },
        { title: "Type", cell: ({ kind }) => kinds[kind] ?? kind },
        { title: "State", cell: (node) => <LiveBadge {...node} /> },
        { title: "Last contact", kind: "number", class: "nowrap", cell: ({ silent_ms }) => ago(silent_ms) },
        { title: "Holds", kind: "number", cell: ({ held }) => short(held) },
        {
          title: "Level",
          kind: "number",
          cell: ({ level }) => (level !== null && level > 0 ? <Badge tone="warn">{level}</Badge> : (level ?? NONE)),
        },
        { title: "Slots held", kind: "number", isWideOnly: true, cell: ({ slots }) => count(slots) },
        { title: "Memory", kind: "number", isWideOnly: true, class: "nowrap", cell: memory },
        { title: "Failed syncs", kind: "number", isWideOnly: true, cell: ({ failed_syncs }) => count(failed_syncs) },
        {
          title: "Configuration",
          isWideOnly: true,
          cell({ config_version }) {
            if (config_version === null) return NONE;
            return config_version === version ? "current" : <Badge tone="warn">{config_version.slice(0, 12)}</Badge>;
          },
        },
      ]}
    />
  );
}

function memory({ memory_used_mb: used, memory_free_mb: free }: PlaneNode): string {
  if (used !== null) return `${count(used)} MB`;
  return free === null ? NONE : `${count(free)} MB free`;
}
