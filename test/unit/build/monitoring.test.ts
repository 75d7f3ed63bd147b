/** The files in monitoring/: generated from their source, complete, and accepted by promtool and amtool. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { parse, parseAllDocuments, stringify } from "yaml";
import { alertRules, alerts } from "../../../build/monitoring/alerts.js";
import { duration } from "../../../build/monitoring/rules.js";
import { DASHBOARDS, monitoringFiles } from "../../../build/monitoring.js";
import { fromRoot } from "../../../build/paths.js";
import { metrics } from "../../../src/service/metrics/catalog.js";
import { alertCases, healthySeries, MINUTES } from "../../support/alert-cases.js";
import { dashboardQueries } from "../../support/dashboard-queries.js";

const read = (path: string) => readFileSync(fromRoot(path), "utf8");
const dir = mkdtempSync(join(tmpdir(), "tollgate-monitoring-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function run(command: string, ...args: string[]) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: fromRoot("."), encoding: "utf8" });
  if (error !== undefined) throw error;
  return { status, output: stdout + stderr };
}

const names = Object.keys(alerts(duration));

interface KubernetesConfig {
  scrape_configs: {
    kubernetes_sd_configs: { selectors: { label: string }[] }[];
    relabel_configs: { regex: string }[];
  }[];
}

interface Workload {
  kind: string;
  spec: {
    template: {
      metadata: { labels: Record<string, string> };
      spec: { containers: { ports?: { name: string }[] }[] };
    };
  };
}

describe("the generated files of monitoring/", () => {
  it("are up to date: otherwise run make monitoring", () => {
    for (const [path, text] of monitoringFiles()) expect(read(path) === text, path).toBe(true);
    const dashboards = readdirSync(fromRoot(DASHBOARDS)).sort();
    expect(dashboards).toEqual(["applications.json", "connections.json", "gateways.json", "overview.json"]);
  });

  it("show every metric of the catalog on a dashboard", () => {
    const queries = dashboardQueries().map(({ query }) => query);
    const shown = (name: string) =>
      queries.some((query) => new RegExp(`\\b${name}(_bucket|_count|_sum)?\\{`).test(query));
    expect(Object.keys(metrics).filter((name) => !shown(name))).toEqual([]);
  });

  it("use only queries that Prometheus accepts on the dashboards", () => {
    const rules = dashboardQueries().map(({ query }, i) => ({ record: `query:${i}`, expr: query }));
    expect(rules.length).toBeGreaterThan(50);
    const file = join(dir, "dashboards.yml");
    writeFileSync(file, stringify({ groups: [{ name: "dashboards", rules }] }));
    expect(run("promtool", "check", "rules", file)).toMatchObject({ status: 0 });
  });
});

describe("Prometheus", () => {
  it("accepts prometheus.yml and the rules", () => {
    const { status, output } = run("promtool", "check", "config", "monitoring/prometheus/prometheus.yml");
    expect([status, output]).toEqual([0, expect.stringContaining(`${names.length} rules found`)]);
    expect(output).not.toMatch(/WARNING|FAILED/);
  });

  it("accepts prometheus-kubernetes.yml, which selects the pods and ports of the chart", () => {
    const { scrape_configs, ...rest } = parse(
      read("monitoring/prometheus/prometheus-kubernetes.yml"),
    ) as KubernetesConfig;
    // Debian builds Prometheus without this discovery, so the rest is checked with promtool.
    const others = scrape_configs.map(({ kubernetes_sd_configs: _, ...job }) => job);
    const file = join(dir, "prometheus.yml");
    writeFileSync(file, stringify({ ...rest, rule_files: ruleFiles().map(fromRoot), scrape_configs: others }));
    expect(run("promtool", "check", "config", file)).toMatchObject({ status: 0 });
    const pods = ["deployment", "planes"].flatMap((name) =>
      parseAllDocuments(read(`deploy/kubernetes/trial/${name}.yaml`)).flatMap((each) => {
        const { kind, spec } = each.toJS() as Workload;
        return kind === "Deployment" ? [spec.template] : [];
      }),
    );
    for (const { kubernetes_sd_configs, relabel_configs } of scrape_configs) {
      const wanted = kubernetes_sd_configs[0]!.selectors[0]!.label.split(",").map((pair) => pair.split("="));
      const found = pods.filter(({ metadata }) => wanted.every(([label, value]) => metadata.labels[label!] === value));
      expect(found).toHaveLength(1);
      const ports = found.flatMap(({ spec }) => spec.containers.flatMap((container) => container.ports ?? []));
      const isScraped = new RegExp(`^(${relabel_configs[0]!.regex})$`);
      expect(ports.filter(({ name }) => isScraped.test(name))).toHaveLength(1);
    }
  });

  it("finds no problem in the rules", () => {
    const { status, output } = run("promtool", "check", "rules", "--lint-fatal", ...ruleFiles());
    expect([status, output]).toEqual([0, expect.not.stringContaining("FAILED")]);
  });
});

const ruleFiles = () =>
  readdirSync(fromRoot("monitoring/prometheus/rules")).map((name) => `monitoring/prometheus/rules/${name}`);

describe("each alert", () => {
  it("has a severity, a summary, a duration, and a section of the documentation as its runbook", () => {
    const headings = [...read("docs/MONITORING.md").matchAll(/^### (\w+)$/gm)].map(([, heading]) => heading!);
    expect(headings.sort()).toEqual([...names].sort());
    for (const { alert = "", for: after, labels, annotations } of alertRules()[0]!.rules) {
      expect(after, alert).toMatch(/^\d+[smhd]$/);
      expect(labels?.severity, alert).toMatch(/^(critical|warning)$/);
      expect(annotations?.summary, alert).not.toBe("");
      expect(annotations?.runbook_url, alert).toMatch(new RegExp(`/docs/MONITORING\\.md#${alert.toLowerCase()}$`));
    }
  });

  it("fires on its fault after its duration and not before, and is silent in a healthy system", () => {
    expect(Object.keys(alertCases).sort()).toEqual([...names].sort());
    const rule_files = ruleFiles().map(fromRoot);
    const tests = Object.entries(alertCases).map(([alertname, { series, silentAt, firesAt }]) => ({
      name: alertname,
      interval: "1m",
      input_series: toInput({ ...healthySeries, ...series }),
      alert_rule_test: [
        { eval_time: `${silentAt}m`, alertname, exp_alerts: [] },
        // The labels and annotations are compared with those that fire, below.
      ],
      promql_expr_test: [
        {
          expr: `count(ALERTS{alertname="${alertname}",alertstate="firing"})`,
          eval_time: `${firesAt}m`,
          exp_samples: [{ labels: "{}", value: 1 }],
        },
      ],
    }));
    const healthy = {
      name: "healthy",
      interval: "1m",
      input_series: toInput(healthySeries),
      promql_expr_test: [{ expr: 'ALERTS{alertstate="firing"}', eval_time: `${MINUTES}m`, exp_samples: [] }],
    };
    const file = join(dir, "tests.yml");
    writeFileSync(file, stringify({ rule_files, evaluation_interval: "1m", tests: [healthy, ...tests] }));
    const { status, output } = run("promtool", "test", "rules", file);
    expect([status, output]).toEqual([0, expect.stringContaining("SUCCESS")]);
  });
});

function toInput(series: Record<string, string>) {
  return Object.entries(series).map(([name, values]) => ({ series: name, values }));
}

describe("Alertmanager", () => {
  const file = "monitoring/alertmanager/alertmanager.yml";

  it("accepts its configuration", () => {
    const { status, output } = run("amtool", "check-config", file);
    expect([status, output]).toEqual([0, expect.stringContaining("SUCCESS")]);
  });

  it("routes alerts by severity", () => {
    for (const severity of ["critical", "warning"]) {
      const { status, output } = run(
        ...(["amtool", "config", "routes", "test", `--config.file=${file}`] as const),
        ...[`--verify.receivers=tollgate-${severity}`, `severity=${severity}`, "alertname=TollgateX"],
      );
      expect([status, output]).toEqual([0, expect.stringMatching(new RegExp(`^tollgate-${severity}$`, "m"))]);
    }
  });

  it("inhibits only alerts that exist", () => {
    const { inhibit_rules } = parse(read(file)) as {
      inhibit_rules: { source_matchers: string[]; target_matchers: string[] }[];
    };
    const named = inhibit_rules
      .flatMap(({ source_matchers, target_matchers }) => [...source_matchers, ...target_matchers])
      .flatMap((matcher) => matcher.match(/Tollgate\w+/g) ?? []);
    expect(named.length).toBeGreaterThan(4);
    expect(named.filter((name) => !names.includes(name))).toEqual([]);
  });
});
