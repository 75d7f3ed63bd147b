/** `make monitoring`: writes the generated files of monitoring/. A test compares them. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { pathToFileURL } from "node:url";
import { alertmanagerConfig } from "./monitoring/alertmanager.js";
import { alertRules } from "./monitoring/alerts.js";
import { applications } from "./monitoring/dashboards/applications.js";
import { connections } from "./monitoring/dashboards/connections.js";
import { gateways } from "./monitoring/dashboards/gateways.js";
import { overview } from "./monitoring/dashboards/overview.js";
import { recordingRules } from "./monitoring/recording-rules.js";
import { ruleFile } from "./monitoring/rules.js";
import { fromRoot } from "./paths.js";

const NOTE = "# Written by `make monitoring` from build/monitoring. Do not edit.\n";
const ALERTMANAGER_NOTE = `${NOTE}# Copy it and give the receivers destinations: docs/MONITORING.md. Alerts of severity critical go to one, all others to the other.\n`;

export const DASHBOARDS = "monitoring/grafana/dashboards";

/** Path → content. */
export function monitoringFiles(): Map<string, string> {
  const dashboards = { overview, applications, gateways, connections };
  return new Map([
    ["monitoring/prometheus/rules/recording.yml", NOTE + ruleFile(recordingRules())],
    ["monitoring/prometheus/rules/ratelimit.yml", NOTE + ruleFile(alertRules())],
    ["monitoring/alertmanager/alertmanager.yml", ALERTMANAGER_NOTE + alertmanagerConfig()],
    ...Object.entries(dashboards).map(([name, make]) => [`${DASHBOARDS}/${name}.json`, make()] as const),
  ]);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  for (const [path, text] of monitoringFiles()) {
    mkdirSync(dirname(fromRoot(path)), { recursive: true });
    writeFileSync(fromRoot(path), text);
  }
}
