/** A rule file for Prometheus, and the durations in it. */
import { stringify } from "yaml";

export interface Rule {
  expr: string;
  record?: string;
  alert?: string;
  for?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
}

export interface RuleGroup {
  name: string;
  interval?: string;
  rules: Rule[];
}

/** Formats a number of seconds. Tests of the rules divide all durations by a constant to see alerts fire soon. */
export type Duration = (seconds: number) => string;

export const MINUTE = 60;
export const HOUR = 3_600;
export const DAY = 86_400;

export const duration: Duration = (seconds) => {
  if (seconds % DAY === 0) return `${seconds / DAY}d`;
  if (seconds % HOUR === 0) return `${seconds / HOUR}h`;
  return seconds % MINUTE === 0 ? `${seconds / MINUTE}m` : `${seconds}s`;
};

export const ruleFile = (groups: readonly RuleGroup[]) => stringify({ groups }, { lineWidth: 0 });
