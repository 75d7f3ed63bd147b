/** Token flow: from the bucket of the cluster (L1) to the busiest apps (L2) and the leases of the nodes (L3). */
import type { ComponentChildren } from "preact";
import type { Flow, FlowApp, State } from "../../../src/service/dashboard/contract.js";
import { count, NONE, plural, rate, short } from "../format.js";
import { Badge, Card, Empty, PageHead } from "../parts/parts.js";
import { AppLink, bucketColumns, Table } from "../parts/table.js";

const ROW = 64;
const WIDTH = 1000;
const COLUMN = 190;
const NODE_ROW = 44;

/** `waiting` is shown until there is data. */
export function FlowView({ state, waiting }: { state: State; waiting: ComponentChildren }) {
  const { flow } = state;
  return (
    <>
      <PageHead title="Token flow">
        <p class="page-note">
          Tokens move from the cluster to apps, and from there on leases to the nodes that spend them.
        </p>
      </PageHead>
      {flow === undefined ? (
        waiting
      ) : flow.apps.length === 0 ? (
        <Card title="Flow">
          <Empty icon="flow" title="No tokens move">
            As soon as requests arrive, the busiest apps and the nodes that hold their tokens appear here.
          </Empty>
        </Card>
      ) : (
        <>
          <Diagram flow={flow} />
          <FlowTable flow={flow} />
        </>
      )}
    </>
  );
}

/** The same numbers are in the table below, so screen readers skip the drawing. On small screens it scrolls sideways. */
function Diagram({ flow: { cluster, apps, nodes, more_nodes } }: { flow: Flow }) {
  const height = Math.max(apps.length * ROW, nodes.length * NODE_ROW, 160) + 16;
  const appTop = (i: number) => (height - apps.length * ROW) / 2 + i * ROW + ROW / 2;
  const nodeTop = (i: number) => (height - nodes.length * NODE_ROW) / 2 + i * NODE_ROW + NODE_ROW / 2;
  const busiest = Math.max(...apps.map(({ requests }) => requests), 1);
  const largest = Math.max(...apps.flatMap(({ leases }) => leases), 1);
  const [left, middle, right] = [0, (WIDTH - COLUMN) / 2, WIDTH - COLUMN];
  return (
    <div class="card flow">
      <p class="flow-hint quiet">Scroll sideways to see the nodes.</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: with a keyboard, a box can only be scrolled if it has the focus */}
      <section class="flow-box" aria-label="Diagram of the token flow" tabIndex={0}>
        <svg viewBox={`0 0 ${WIDTH} ${height}`} aria-hidden="true">
          {apps.map((app, i) => (
            <path
              key={app.app_id}
              class={app.refused > 0 ? "flow-link flow-short" : "flow-link"}
              d={curve(left + COLUMN, height / 2, middle, appTop(i))}
              stroke-width={1.5 + (app.requests / busiest) * 14}
            />
          ))}
          {apps.flatMap((app, i) =>
            app.leases.map((held, j) =>
              held <= 0 ? null : (
                <path
                  key={`${app.app_id} ${j}`}
                  class="flow-lease"
                  d={curve(middle + COLUMN, appTop(i), right, nodeTop(j))}
                  stroke-width={1 + (held / largest) * 9}
                />
              ),
            ),
          )}
          <Box
            x={left}
            y={height / 2}
            title={`L1 ${cluster.id}`}
            detail={`${short(cluster.tokens)} of ${short(cluster.capacity)}`}
            share={(cluster.tokens ?? 0) / Math.max(cluster.capacity, 1)}
          />
          {apps.map((app, i) => (
            <Box
              key={app.app_id}
              x={middle}
              y={appTop(i)}
              title={app.app_id}
              detail={appDetail(app)}
              share={(app.tokens ?? 0) / Math.max(app.burst, 1)}
              isShort={app.refused > 0}
            />
          ))}
          {nodes.map((node, j) => (
            <Box
              key={node.node_id}
              x={right}
              y={nodeTop(j)}
              title={node.node_id}
              detail={`holds ${short(node.held)}${node.alive ? "" : ", silent"}`}
              isShort={!node.alive}
            />
          ))}
        </svg>
      </section>
      {more_nodes > 0 && <p class="quiet">and {plural(more_nodes, "more node")} with fewer tokens</p>}
    </div>
  );
}

function appDetail({ tokens, burst, debt, recalled }: FlowApp): string {
  const owed = debt !== null && debt >= 1 ? `, owes ${short(debt)}` : "";
  return `${short(tokens)} of ${short(burst)}${owed}${recalled ? ", recalling" : ""}`;
}

function curve(x1: number, y1: number, x2: number, y2: number): string {
  const bend = (x1 + x2) / 2;
  return `M${x1} ${y1}C${bend} ${y1} ${bend} ${y2} ${x2} ${y2}`;
}

interface BoxProps {
  x: number;
  y: number;
  title: string;
  detail: string;
  share?: number;
  isShort?: boolean;
}

function Box({ x, y, title, detail, share, isShort = false }: BoxProps) {
  const level = Math.min(Math.max(share ?? 0, 0), 1);
  return (
    <g class={isShort ? "flow-node flow-node-short" : "flow-node"} transform={`translate(${x} ${y - 19})`}>
      <rect width={COLUMN} height={38} rx={8} />
      {share !== undefined && (
        <rect class="flow-level" x={1} y={34} width={Math.max((COLUMN - 2) * level, 0)} height={3} rx={1.5} />
      )}
      <text x={11} y={16}>
        {title.length > 24 ? `${title.slice(0, 23)}…` : title}
      </text>
      <text x={11} y={29} class="flow-detail">
        {detail}
      </text>
    </g>
  );
}

function FlowTable({ flow: { apps, nodes } }: { flow: Flow }) {
  return (
    <Card title="Tokens of the busiest apps">
      <Table
        rows={apps}
        keyOf={({ app_id }) => app_id}
        columns={[
          { title: "App", cell: ({ app_id }) => <AppLink id={app_id} /> },
          { title: "Requests/s", kind: "number", cell: ({ requests }) => rate(requests) },
          ...bucketColumns("Bucket", (app: FlowApp) => app, count),
          {
            title: "Leases",
            kind: "number",
            cell: ({ held, leases }) => (
              <>
                {count(held)}{" "}
                <span class="text-faint wide-only">
                  on {plural(leases.filter((tokens) => tokens > 0).length, "node")}
                </span>
              </>
            ),
          },
          {
            title: "Owed",
            kind: "number",
            isWideOnly: true,
            cell: ({ debt }) => (debt === null || debt < 1 ? NONE : count(debt)),
          },
          {
            title: "State",
            cell({ refused, recalled }) {
              if (refused > 0) return <Badge tone="warn">refusing</Badge>;
              return recalled ? <Badge tone="info">recalling</Badge> : <Badge tone="good">ok</Badge>;
            },
          },
        ]}
      />
      {nodes.length === 0 && <p class="quiet">No node holds tokens.</p>}
    </Card>
  );
}
