/** All generated files of monitoring/: path → content. */
import { alertmanagerConfig } from "./alertmanager.js";
import { alertRules } from "./alerts.js";
import { applications } from "./dashboards/applications.js";
import { connections } from "./dashboards/connections.js";
import { gateways } from "./dashboards/gateways.js";
import { overview } from "./dashboards/overview.js";
import { recordingRules } from "./recording-rules.js";
import { ruleFile } from "./rules.js";

const NOTE = "# Written by `make monitoring` from build/monitoring. Do not edit.\n";
const ALERTMANAGER_NOTE = `${NOTE}# Copy it and give the receivers destinations: docs/MONITORING.md. Alerts of severity critical go to one, all others to the other.\n`;

export const DASHBOARDS = "monitoring/grafana/dashboards";

export function monitoringFiles(): Map<string, string> {
  const dashboards = { overview, applications, gateways, connections };
  return new Map([
    ["monitoring/prometheus/rules/recording.yml", NOTE + ruleFile(recordingRules())],
    ["monitoring/prometheus/rules/ratelimit.yml", NOTE + ruleFile(alertRules())],
    ["monitoring/alertmanager/alertmanager.yml", ALERTMANAGER_NOTE + alertmanagerConfig()],
    ...Object.entries(dashboards).map(([name, make]) => [`${DASHBOARDS}/${name}.json`, make()] as const),
  ]);
}
