/** Overview: what the whole service does now and did in the last 15 minutes. */
import type { HistoryPoint, State } from "../../../src/service/dashboard/contract.js";
import { layerNames } from "../../../src/service/metrics/labels.js";
import { ago, count, latency, percent, plural, rate, short } from "../format.js";
import { Chart, type ChartLine } from "../parts/chart.js";
import { Bar, Card, Empty, PageHead, Tile } from "../parts/parts.js";
import { ReasonBadge, Reasons } from "../parts/reasons.js";
import { AppLink, badIfAny, Table } from "../parts/table.js";

const traffic: ChartLine<HistoryPoint>[] = [
  { label: "Admitted", tone: "series-good", filled: true, value: ({ admitted }) => admitted },
  { label: "Refused", tone: "series-bad", filled: true, value: ({ refused }) => refused },
];
/** Only if there are dry runs. */
const trafficWithDryRun: ChartLine<HistoryPoint>[] = [
  ...traffic,
  { label: "Would be refused (dry run)", tone: "series-4", value: ({ dry_run }) => dry_run },
];

const layerTones: Record<(typeof layerNames)[number], string> = {
  L1: "series-1",
  L2: "series-2",
  L3: "series-3",
  emergency: "series-bad",
  store: "series-4",
  identity: "series-5",
  limit: "series-6",
};
const layers = layerNames.map(
  (layer): ChartLine<HistoryPoint> => ({
    label: layer === "limit" ? "limits" : layer,
    tone: layerTones[layer],
    value: (point) => point.layers[layer] ?? 0,
  }),
);

const decisions: ChartLine<HistoryPoint>[] = [
  { label: "P50", tone: "series-1", value: ({ decision }) => decision.p50_ms },
  { label: "P99", tone: "series-2", value: ({ decision }) => decision.p99_ms },
];
const storeCalls: ChartLine<HistoryPoint>[] = [
  { label: "P50", tone: "series-1", value: ({ store }) => store.p50_ms },
  { label: "P99", tone: "series-2", value: ({ store }) => store.p99_ms },
];

const perSecond = (value: number) => `${rate(value)}/s`;
/** Ticks are round numbers. */
const tick = (value: number) => String(Number(value.toPrecision(3)));
const latencyTick = (ms: number) =>
  ms < 1 ? `${tick(ms * 1000)} µs` : ms < 1000 ? `${tick(ms)} ms` : `${tick(ms / 1000)} s`;

/** P50 and P99 differ by orders of magnitude. */
const latencyChart = { format: latency, axisFormat: latencyTick, isLogarithmic: true };

export function Overview({ state, points }: { state: State; points: readonly HistoryPoint[] }) {
  const { overview } = state;
  const { rates, status, store, cluster, nodes } = overview;
  const share = rates === null || rates.requests === 0 ? null : rates.refused / rates.requests;
  const latestOf = (pick: (point: HistoryPoint) => number | null) =>
    points.reduceRight<number | null>((found, point) => found ?? pick(point), null);
  const hasDryRun = status.statistics.dry_run_rejected > 0;
  const p50 = rates?.decision.p50_ms ?? latestOf(({ decision }) => decision.p50_ms);
  const p99 = rates?.decision.p99_ms ?? latestOf(({ decision }) => decision.p99_ms);
  return (
    <>
      <PageHead title="Overview" />
      <dl class="tiles">
        <Tile
          label="Requests"
          value={rate(rates?.requests)}
          unit="/s"
          note={`${short(status.statistics.total_requests)} in total`}
        />
        <Tile
          label="Admitted"
          value={rate(rates?.admitted)}
          unit="/s"
          note={`${short(status.statistics.allowed_requests)} in total`}
        />
        <Tile
          label="Refused"
          value={rate(rates?.refused)}
          unit="/s"
          tone={share !== null && share > 0 ? "warn" : "neutral"}
          note={`${short(status.statistics.rejected_requests)} in total${share === null ? "" : `, ${percent(share)} now`}`}
        />
        {hasDryRun && (
          <Tile
            label="Would be refused"
            value={rate(rates?.dry_run)}
            unit="/s"
            note={`${short(status.statistics.dry_run_rejected)} in total, dry run`}
          />
        )}
        <Tile label="Decision time P99" value={latency(p99)} note={`P50 ${latency(p50)}`} />
        <Tile
          label="Store latency P99"
          value={store.answers ? latency(rates?.store.p99_ms ?? store.latency_ms) : "unavailable"}
          tone={store.answers ? "neutral" : "bad"}
          note={
            store.answers
              ? `P50 ${latency(rates?.store.p50_ms ?? store.latency_ms)} · ${plural(store.errors, "error")}`
              : `${plural(store.errors, "error")} so far`
          }
        />
        <Tile label="Decided locally" value={percent(rates?.local ?? null)} note={`${rate(rates?.syncs)} syncs/s`} />
      </dl>
      <div class="charts">
        <Chart
          title="Traffic"
          points={points}
          lines={hasDryRun ? trafficWithDryRun : traffic}
          format={perSecond}
          axisFormat={tick}
        />
        <Chart title="Refusals by layer" points={points} lines={layers} format={perSecond} axisFormat={tick} />
        <Chart title="Decision time" {...latencyChart} points={points} lines={decisions} />
        <Chart title="Store latency" {...latencyChart} points={points} lines={storeCalls} />
      </div>
      <div class="columns">
        <div class="stack">
          <BusiestApps overview={overview} />
          <Reasons reasons={overview.refusals} empty="Nothing was refused since the gateways started." />
        </div>
        <Card title="Cluster">
          <Bar
            share={(cluster.tokens ?? 0) / Math.max(cluster.capacity, 1)}
            label="L1 tokens left"
            tone={cluster.tokens !== null && cluster.tokens < cluster.capacity * 0.05 ? "bad" : "info"}
          />
          <dl class="facts">
            <div>
              <dt>L1 tokens</dt>
              <dd class="num">
                {cluster.tokens === null ? "unknown" : `${short(cluster.tokens)} of ${short(cluster.capacity)}`}
              </dd>
            </div>
            <Fact name="Held on leases" value={short(cluster.held)} />
            <Fact name="Refill" value={`${short(cluster.rate)} tokens/s`} />
            <Fact
              name="Nodes"
              value={
                nodes.silent === 0 ? plural(nodes.alive, "live node") : `${nodes.alive} live, ${nodes.silent} silent`
              }
            />
            <Fact name="Client connections" value={count(status.connections)} />
            <Fact name="Degradation level" value={String(status.degradation_level)} />
            <Fact name="Emergency" value={emergencyText(status)} />
            <Fact
              name="Store"
              value={`${store.kind}, ${status.redis.connected_nodes} of ${plural(status.redis.cluster_nodes, "server")}`}
            />
            <Fact name="Configuration" value={overview.config_versions.map((one) => one.slice(0, 12)).join(", ")} />
          </dl>
          {store.warnings.map((warning) => (
            <p class="hint" key={warning}>
              {warning}
            </p>
          ))}
        </Card>
      </div>
      <RecentRefusals overview={overview} />
    </>
  );
}

function emergencyText({ emergency_mode, emergency }: State["overview"]["status"]): string {
  if (emergency_mode) return "active";
  return emergency.bursts_stopped ? "off, bursts stopped" : "off";
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="num">{value}</dd>
    </div>
  );
}

function BusiestApps({ overview: { busiest, apps_total } }: { overview: State["overview"] }) {
  const most = Math.max(...busiest.map(({ requests }) => requests), 1);
  const hasDryRun = busiest.some(({ total_dry_run }) => total_dry_run > 0);
  return (
    <Card title="Busiest apps" action={<a href="#/apps">{plural(apps_total, "app")}</a>}>
      {busiest.length === 0 ? (
        <Empty icon="apps" title="No requests yet">
          Send a request through the gateway, and the app appears here.
        </Empty>
      ) : (
        <Table
          rows={busiest}
          keyOf={({ app_id }) => app_id}
          columns={[
            { title: "App", cell: ({ app_id }) => <AppLink id={app_id} /> },
            {
              title: "Share of the busiest",
              kind: "bar",
              isWideOnly: true,
              cell: ({ app_id, requests }) => (
                <Bar share={requests / most} label={`Requests of ${app_id} relative to the busiest app`} />
              ),
            },
            { title: "Requests/s", kind: "number", cell: ({ requests }) => rate(requests) },
            {
              title: "Refused/s",
              kind: "number",
              class: ({ refused }) => badIfAny(refused),
              cell: ({ refused }) => rate(refused),
            },
            hasDryRun && {
              title: "Would refuse/s",
              kind: "number",
              class: "text-faint",
              cell: ({ dry_run }) => rate(dry_run),
            },
            { title: "Total", kind: "number", cell: ({ total }) => short(total) },
          ]}
        />
      )}
    </Card>
  );
}

function RecentRefusals({ overview: { recent_refusals, status } }: { overview: State["overview"] }) {
  const now = Date.parse(status.timestamp);
  return (
    <Card title="Recent refusals">
      {recent_refusals.length === 0 ? (
        <p class="quiet">No recent refusals.</p>
      ) : (
        <ul class="refusals">
          {recent_refusals.slice(0, 10).map((one, i) => (
            <li key={`${one.at} ${i}`}>
              <span class="refusal-when num">{ago(now - one.at)}</span>
              <span class="refusal-what">
                {one.app_id === "" ? <em>no app</em> : <AppLink id={one.app_id} />}{" "}
                <ReasonBadge code={one.code} limit={one.limit_name} dryRun={one.dry_run} />
              </span>
              <span class="refusal-why">{one.explanation || `${one.method}, cost ${count(one.cost)}`}</span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
