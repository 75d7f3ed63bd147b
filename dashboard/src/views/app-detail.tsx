/** One app: what limits it, its balance over time, its leases, and its recent refusals. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { AppPoint, State } from "../../../src/service/dashboard/contract.js";
import type { AppReply } from "../../../src/service/operations/contract/contract.js";
import { isAppId } from "../api.js";
import { ago, count, percent, plural, rate, short } from "../format.js";
import { Chart, type ChartLine } from "../parts/chart.js";
import { Icon } from "../parts/icons.js";
import { Badge, Bar, Card, Empty, PageHead, Tile } from "../parts/parts.js";
import { ReasonBadge, Reasons } from "../parts/reasons.js";
import { DecisionTiles, LiveBadge, Table } from "../parts/table.js";

const WINDOW_SECONDS = 120;
const KEPT = WINDOW_SECONDS;

/** The history of the service has no balances: they are recorded while the page is open. */
interface Balance {
  at: number;
  tokens: number | null;
  held: number | null;
  debt: number | null;
}

interface AppDetailProps {
  id: string;
  state: State;
  traffic: readonly AppPoint[];
  waiting: ComponentChildren;
}

export function AppDetail({ id, state, traffic, waiting }: AppDetailProps) {
  const { app } = state;
  const [balances, setBalances] = useState<{ id: string; list: Balance[] }>({ id, list: [] });
  const own = app !== undefined && "app_id" in app && app.app_id === id ? app : undefined;
  useEffect(() => {
    if (own === undefined) return;
    const { l2, l3 } = own.layers;
    const point = {
      at: Date.parse(own.timestamp) / 1000,
      tokens: l2?.tokens ?? null,
      held: l3.held,
      debt: l2?.debt ?? null,
    };
    setBalances((before) => ({ id, list: [...(before.id === id ? before.list : []), point].slice(-KEPT) }));
  }, [own]);
  const isMissing = !isAppId(id) || (app !== undefined && "missing" in app && app.missing === id);
  return (
    <>
      <PageHead title={id}>
        <a class="back" href="#/apps">
          <Icon name="back" size={16} /> All apps
        </a>
        {own?.config.dry_run === true && <Badge tone="info">dry run</Badge>}
        {own !== undefined && <Badge tone="neutral">priority {own.config.priority}</Badge>}
      </PageHead>
      {isMissing ? (
        <Card title="Unknown app">
          <Empty icon="apps" title="This app is not configured">
            It may have been removed from the configuration.
          </Empty>
        </Card>
      ) : own === undefined ? (
        waiting
      ) : (
        <Detail app={own} balances={balances.list} traffic={traffic} />
      )}
    </>
  );
}

const balanceLines: ChartLine<Balance>[] = [
  { label: "In the bucket", tone: "series-1", filled: false, value: ({ tokens }) => tokens },
  { label: "On leases", tone: "series-3", value: ({ held }) => held },
  { label: "Debt", tone: "series-bad", value: ({ debt }) => debt },
];

const trafficLines: ChartLine<AppPoint>[] = [
  { label: "Admitted", tone: "series-good", filled: true, value: ({ requests, refused }) => requests - refused },
  { label: "Refused", tone: "series-bad", filled: true, value: ({ refused }) => refused },
];
const trafficLinesWithDryRun: ChartLine<AppPoint>[] = [
  ...trafficLines,
  { label: "Would be refused (dry run)", tone: "series-4", value: ({ dry_run }) => dry_run },
];

interface DetailProps {
  app: AppReply;
  balances: Balance[];
  traffic: readonly AppPoint[];
}

function Detail({ app, balances, traffic }: DetailProps) {
  const { layers, statistics, config } = app;
  const { l2, l3 } = layers;
  const hasDryRun = config.dry_run || statistics.dry_run_rejected > 0;
  return (
    <>
      <p class="why card">{app.why}</p>
      <dl class="tiles">
        <DecisionTiles
          decisions={statistics}
          isDryRun={config.dry_run}
          note={`${percent(statistics.l3_hit_ratio)} decided locally`}
        />
        <Tile
          label="In the bucket"
          value={l2 === null ? "unknown" : count(Math.floor(l2.tokens))}
          note={`burst ${short(config.burst)}`}
        />
        <Tile
          label="On leases"
          value={count(l3.held)}
          note={
            l3.recalling ? "being recalled" : `on ${plural(l3.leases.filter(({ held }) => held > 0).length, "node")}`
          }
        />
        <Tile
          label="Debt"
          value={l2 === null ? "unknown" : count(l2.debt)}
          note={config.borrow ? "may borrow" : "may not borrow"}
        />
        <Tile
          label="Guaranteed rate"
          value={short(config.guaranteed)}
          unit="/s"
          note={`without store: ${config.on_store_failure}`}
        />
      </dl>
      <div class="charts">
        <Chart
          title="Traffic"
          points={traffic}
          lines={hasDryRun ? trafficLinesWithDryRun : trafficLines}
          format={(value) => `${rate(value)}/s`}
          axisFormat={short}
        />
        <Chart
          title="Balance, last 2 minutes"
          windowSeconds={WINDOW_SECONDS}
          points={balances}
          lines={balanceLines}
          format={(value) => count(Math.floor(value))}
          axisFormat={short}
        />
      </div>
      <div class="columns columns-even">
        <div class="stack">
          <Reasons reasons={statistics.reasons} empty="No request of this app was refused." />
        </div>
        <div class="stack">
          <Costs histogram={statistics.cost_histogram} />
        </div>
      </div>
      <Leases app={app} />
      <Card title="Recent refusals">
        {app.last_refusals.length === 0 ? (
          <p class="quiet">None on this service's gateways.</p>
        ) : (
          <ul class="refusals">
            {app.last_refusals.map((one, i) => (
              <li key={`${one.timestamp} ${i}`}>
                <span class="refusal-when num">{ago(Date.parse(app.timestamp) - Date.parse(one.timestamp))}</span>
                <span class="refusal-what">
                  {one.method} <span class="text-faint">cost {count(one.cost)}</span>{" "}
                  <ReasonBadge code={one.code} limit={one.limit_name} dryRun={one.dry_run} />
                </span>
                <span class="refusal-why">{one.explanation}</span>
              </li>
            ))}
          </ul>
        )}
      </Card>
    </>
  );
}

function Costs({ histogram }: { histogram: AppReply["statistics"]["cost_histogram"] }) {
  const most = Math.max(...histogram.map(({ requests }) => requests), 1);
  const shown = histogram.filter(({ requests }) => requests > 0);
  return (
    <Card title="Requests by cost">
      {shown.length === 0 ? (
        <p class="quiet">No requests yet, or metrics are disabled.</p>
      ) : (
        <ul class="costs">
          {shown.map(({ up_to, requests }) => (
            <li key={up_to}>
              <span class="num">{up_to === null ? "more" : `≤ ${short(up_to)}`}</span>
              <Bar share={requests / most} label={`${requests} requests`} />
              <span class="num right">{short(requests)}</span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function Leases({ app }: { app: AppReply }) {
  const { leases } = app.layers.l3;
  const most = Math.max(...leases.map(({ held }) => held), 1);
  return (
    <section class="block">
      <Card title="Leases per node">
        {leases.length === 0 ? (
          <p class="quiet">No node holds tokens of this app.</p>
        ) : (
          <Table
            rows={leases.slice(0, 100)}
            keyOf={({ node_id }) => node_id}
            columns={[
              { title: "Node", class: "id", cell: ({ node_id }) => node_id },
              { title: "Holds", kind: "number", cell: ({ held }) => count(held) },
              {
                title: "Share of the largest lease",
                kind: "bar",
                cell: ({ held, node_id }) => <Bar share={held / most} label={`Tokens on ${node_id}`} />,
              },
              { title: "Granted", kind: "number", isWideOnly: true, cell: ({ granted }) => short(granted) },
              { title: "Spent", kind: "number", isWideOnly: true, cell: ({ spent }) => short(spent) },
              { title: "Returned", kind: "number", isWideOnly: true, cell: ({ returned }) => short(returned) },
              { title: "State", cell: (lease) => <LiveBadge {...lease} /> },
            ]}
          />
        )}
      </Card>
    </section>
  );
}
