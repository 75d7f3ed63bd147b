/** The configuration of Alertmanager: who is told, how alerts are grouped, and which ones are silent because of others. */
import { stringify } from "yaml";
import type { AlertName } from "./alerts.js";

interface Inhibition {
  /** While one of these is active … */
  sources: AlertName[];
  /** … these are not sent. */
  targets: AlertName[];
  /** Only if these labels are equal. */
  equal: string[];
}

const inhibitions: Inhibition[] = [
  {
    sources: ["TollgateStoreUnavailable"],
    targets: ["TollgateDegraded", "TollgateStoreErrors", "TollgateConnectionLeasesLost", "TollgateRefusalsUnusual"],
    equal: ["cluster"],
  },
  // Returning the tokens of a dead node counts as a correction.
  { sources: ["TollgateNodesUnresponsive"], targets: ["TollgateDrift"], equal: ["cluster"] },
  { sources: ["TollgateEmergency"], targets: ["TollgateRefusalsUnusual"], equal: ["cluster"] },
  { sources: ["TollgateOverload"], targets: ["TollgateRefusalsUnusual"], equal: ["cluster"] },
  {
    sources: ["TollgateCertificateExpiresNow"],
    targets: ["TollgateCertificateExpiresSoon"],
    equal: ["cluster", "instance", "section"],
  },
];

const matcher = (names: readonly AlertName[]) => `alertname=~"${names.join("|")}"`;

/** The receivers have no destinations: they depend on the organisation. */
export function alertmanagerConfig(): string {
  const config = {
    route: {
      receiver: "tollgate-warning",
      group_by: ["alertname", "cluster"],
      group_wait: "30s",
      group_interval: "5m",
      repeat_interval: "12h",
      routes: [
        {
          receiver: "tollgate-critical",
          matchers: ['severity="critical"'],
          group_wait: "10s",
          group_interval: "1m",
          repeat_interval: "1h",
        },
      ],
    },
    receivers: [{ name: "tollgate-critical" }, { name: "tollgate-warning" }],
    inhibit_rules: inhibitions.map(({ sources, targets, equal }) => ({
      source_matchers: [matcher(sources)],
      target_matchers: [matcher(targets)],
      equal,
    })),
  };
  return stringify(config, { lineWidth: 0 });
}
