/** Nodes and planes: who is live, what they hold, and how they are. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Nodes, PlaneNode, State } from "../../../src/service/dashboard/contract.js";
import { ago, count, plural, short } from "../format.js";
import { Icon } from "../parts/icons.js";
import { Badge, Banner, Card, Empty, PageHead, Tile } from "../parts/parts.js";

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
        action={
          <div class="search">
            <Icon name="search" size={16} />
            <input
              type="search"
              aria-label="Search nodes"
              placeholder="Search nodes"
              value={search}
              onInput={(event) => setSearch(event.currentTarget.value)}
            />
          </div>
        }
      >
        {found.length === 0 ? (
          <Empty icon="nodes" title="No node matches" />
        ) : (
          <>
            <div class="table-box">
              <table>
                <thead>
                  <tr>
                    <th>Node</th>
                    <th>Type</th>
                    <th>State</th>
                    <th class="right">Last contact</th>
                    <th class="right">Holds</th>
                    <th class="right">Level</th>
                    <th class="right wide-only">Slots held</th>
                    <th class="right wide-only">Memory</th>
                    <th class="right wide-only">Failed syncs</th>
                    <th class="wide-only">Configuration</th>
                  </tr>
                </thead>
                <tbody>
                  {found.slice(0, shown).map((node) => (
                    <NodeRow key={node.node_id} node={node} version={version} />
                  ))}
                </tbody>
              </table>
            </div>
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

function NodeRow({ node, version }: { node: PlaneNode; version: string }) {
  const { level, config_version } = node;
  return (
    <tr>
      <td class="id">{node.node_id}</td>
      <td>{kinds[node.kind] ?? node.kind}</td>
      <td>{node.alive ? <Badge tone="good">live</Badge> : <Badge tone="bad">silent</Badge>}</td>
      <td class="right num nowrap">{ago(node.silent_ms)}</td>
      <td class="right num">{short(node.held)}</td>
      <td class="right num">{level === null ? "–" : level > 0 ? <Badge tone="warn">{level}</Badge> : level}</td>
      <td class="right num wide-only">{count(node.slots)}</td>
      <td class="right num wide-only nowrap">{memory(node)}</td>
      <td class="right num wide-only">{count(node.failed_syncs)}</td>
      <td class="wide-only">
        {config_version === null ? (
          "–"
        ) : config_version === version ? (
          "current"
        ) : (
          <Badge tone="warn">{config_version.slice(0, 12)}</Badge>
        )}
      </td>
    </tr>
  );
}

function memory({ memory_used_mb: used, memory_free_mb: free }: PlaneNode): string {
  if (used !== null) return `${count(used)} MB`;
  return free === null ? "–" : `${count(free)} MB free`;
}
