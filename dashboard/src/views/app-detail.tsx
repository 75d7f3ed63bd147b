/** One app: what limits it, its balance over time, its leases, and its recent refusals. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { HistoryPoint, State } from "../../../src/service/dashboard/contract.js";
import type { AppReply } from "../../../src/service/operations/contract/contract.js";
import { isAppId } from "../api.js";
import { ago, count, percent, plural, short, words } from "../format.js";
import { Chart, type ChartLine } from "../parts/chart.js";
import { Icon } from "../parts/icons.js";
import { Badge, Bar, Card, Empty, PageHead, Tile } from "../parts/parts.js";

const WINDOW_SECONDS = 120;
const KEPT = WINDOW_SECONDS;

/** The history of the service has no balances: they are recorded while the page is open. */
interface Balance {
  at: number;
  tokens: number | null;
  held: number | null;
  debt: number | null;
}

export function AppDetail({ id, state, waiting }: { id: string; state: State; waiting: ComponentChildren }) {
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
        <Detail app={own} balances={balances.list} />
      )}
    </>
  );
}

const balanceLines: ChartLine[] = [
  { label: "In the bucket", tone: "series-1", filled: false, value: (point) => (point as unknown as Balance).tokens },
  { label: "On leases", tone: "series-3", value: (point) => (point as unknown as Balance).held },
  { label: "Debt", tone: "series-bad", value: (point) => (point as unknown as Balance).debt },
];

function Detail({ app, balances }: { app: AppReply; balances: Balance[] }) {
  const { layers, statistics, config } = app;
  const { l2, l3 } = layers;
  return (
    <>
      <p class="why card">{app.why}</p>
      <dl class="tiles">
        <Tile
          label="Requests"
          value={short(statistics.requests)}
          note={`${percent(statistics.l3_hit_ratio)} decided locally`}
        />
        <Tile
          label="Refused"
          value={short(statistics.rejected)}
          tone={statistics.rejected > 0 ? "warn" : "neutral"}
          note={
            statistics.requests === 0
              ? "no requests"
              : `${percent(statistics.rejected / statistics.requests)} of requests`
          }
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
      <div class="columns">
        <Chart
          title="Balance, last 2 minutes"
          windowSeconds={WINDOW_SECONDS}
          points={balances as unknown as HistoryPoint[]}
          lines={balanceLines}
          format={(value) => count(Math.floor(value))}
          axisFormat={short}
        />
        <div class="stack">
          <Card title="Refusals by reason">
            {Object.keys(statistics.refusals).length === 0 ? (
              <p class="quiet">No request of this app was refused.</p>
            ) : (
              <ul class="reasons">
                {Object.entries(statistics.refusals).map(([code, total]) => (
                  <li key={code}>
                    <span>{words(code)}</span>
                    <span class="num">{count(total)}</span>
                  </li>
                ))}
              </ul>
            )}
          </Card>
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
                  <Badge tone={one.dry_run ? "info" : "warn"}>{words(one.code)}</Badge>
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
          <div class="table-box">
            <table>
              <thead>
                <tr>
                  <th>Node</th>
                  <th class="right">Holds</th>
                  <th class="bar-cell" aria-label="Share of the largest lease" />
                  <th class="right wide-only">Granted</th>
                  <th class="right wide-only">Spent</th>
                  <th class="right wide-only">Returned</th>
                  <th>State</th>
                </tr>
              </thead>
              <tbody>
                {leases.slice(0, 100).map((lease) => (
                  <tr key={lease.node_id}>
                    <td class="id">{lease.node_id}</td>
                    <td class="right num">{count(lease.held)}</td>
                    <td>
                      <Bar share={lease.held / most} label={`Tokens on ${lease.node_id}`} />
                    </td>
                    <td class="right num wide-only">{short(lease.granted)}</td>
                    <td class="right num wide-only">{short(lease.spent)}</td>
                    <td class="right num wide-only">{short(lease.returned)}</td>
                    <td>{lease.alive ? <Badge tone="good">live</Badge> : <Badge tone="bad">silent</Badge>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Card>
    </section>
  );
}
