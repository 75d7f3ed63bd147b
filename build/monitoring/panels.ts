/** Panels and dashboards for Grafana, in one style. */
import {
  type Dashboard,
  DashboardBuilder,
  DashboardCursorSync,
  DashboardLinkBuilder,
  DashboardLinkType,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  ThresholdsConfigBuilder,
  ThresholdsMode,
  VariableRefresh,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { DataqueryBuilder } from "@grafana/grafana-foundation-sdk/prometheus";
import { PanelBuilder as StatPanel } from "@grafana/grafana-foundation-sdk/stat";
import { PanelBuilder as LinesPanel } from "@grafana/grafana-foundation-sdk/timeseries";
import type { MetricLabel, MetricName } from "../../src/service/metrics/catalog.js";
import { createQueries, SERVICE_JOB } from "./queries.js";

const DATASOURCE = { type: "prometheus", uid: "$datasource" };
const TAG = "tollgate";
const CLUSTER = 'cluster=~"$cluster"';

/** Queries of dashboards. */
export const queries = createQueries({ window: "$__rate_interval", matchers: [CLUSTER] });

export interface Panel {
  title: string;
  /** What to look for. */
  description?: string;
  unit?: string;
  /** Queries with the legend of their series. */
  show: readonly (readonly [query: string, legend: string])[];
  /** Current values, green, or red from this value on; otherwise lines. */
  stat?: { red?: number };
  max?: number;
}

export interface DashboardOptions {
  /** Name of the file, and end of the uid. */
  name: string;
  title: string;
  description: string;
  /** Variables with the values of a label, in addition to the cluster. */
  variables?: readonly Variable[];
  rows: readonly (readonly [title: string, panels: readonly Panel[]])[];
}

export interface Variable {
  name: string;
  query: string;
}

/** A variable with the values that a label of a metric has. */
export function labelVariable<Name extends MetricName>(name: string, metric: Name, label: MetricLabel<Name>): Variable {
  return { name, query: `label_values(${metric}{job="${SERVICE_JOB}",${CLUSTER}}, ${label})` };
}

const STAT_WIDTH = 4;
const LINES_WIDTH = 8;

export function dashboard({ name, title, description, variables = [], rows }: DashboardOptions): string {
  const builder = new DashboardBuilder(`Tollgate: ${title}`)
    .uid(`tollgate-${name}`)
    .description(description)
    .tags([TAG])
    .refresh("30s")
    .time({ from: "now-1h", to: "now" })
    .timezone("browser")
    .tooltip(DashboardCursorSync.Crosshair)
    .readonly()
    .link(
      new DashboardLinkBuilder("Tollgate")
        .type(DashboardLinkType.Dashboards)
        .tags([TAG])
        .includeVars(true)
        .keepTime(true),
    )
    .withVariable(new DatasourceVariableBuilder("datasource").label("data source").type("prometheus"));
  const cluster = { name: "cluster", query: `label_values(ratelimit_build_info{job="${SERVICE_JOB}"}, cluster)` };
  for (const each of [cluster, ...variables]) builder.withVariable(queryVariable(each));
  let id = 0;
  for (const [rowTitle, panels] of rows) {
    builder.withRow(new RowBuilder(rowTitle).id(++id));
    for (const panel of panels) {
      builder.withPanel(panel.stat === undefined ? lines(panel, ++id) : stat(panel, ++id));
    }
  }
  return oneLineEach(builder.build());
}

/** One line per panel and other property, so that changes are easy to read. */
function oneLineEach({ panels = [], ...rest }: Dashboard): string {
  const lines = Object.entries(rest).map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`);
  return `{\n${lines.join(",\n")},\n"panels": [\n${panels.map((panel) => JSON.stringify(panel)).join(",\n")}\n]\n}\n`;
}

function queryVariable({ name, query }: Variable): QueryVariableBuilder {
  return new QueryVariableBuilder(name)
    .query(query)
    .datasource(DATASOURCE)
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .multi(true)
    .includeAll(true)
    .allValue(".*")
    .current({ selected: true, text: "All", value: "$__all" });
}

function targets({ show }: Panel): DataqueryBuilder[] {
  return show.map(([query, legend], i) =>
    new DataqueryBuilder()
      .datasource(DATASOURCE)
      .expr(query)
      .legendFormat(legend)
      .refId(String.fromCharCode(65 + i)),
  );
}

function lines(panel: Panel, id: number): LinesPanel {
  const { title, description = "", unit = "short", max } = panel;
  const builder = new LinesPanel()
    .id(id)
    .title(title)
    .description(description)
    .datasource(DATASOURCE)
    .unit(unit)
    .min(0)
    .fillOpacity(10)
    .span(LINES_WIDTH)
    .height(8)
    .targets(targets(panel));
  return max === undefined ? builder : builder.max(max);
}

function stat(panel: Panel, id: number): StatPanel {
  const { title, description = "", unit = "short", stat: style = {} } = panel;
  const steps = [
    { value: null, color: "green" },
    ...(style.red === undefined ? [] : [{ value: style.red, color: "red" }]),
  ];
  return new StatPanel()
    .id(id)
    .title(title)
    .description(description)
    .datasource(DATASOURCE)
    .unit(unit)
    .thresholds(new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(steps))
    .span(STAT_WIDTH)
    .height(4)
    .targets(targets(panel));
}
