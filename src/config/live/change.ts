/** Compares two configurations: options that need a restart, what a file would remove, apps whose limits changed, and changed limits. */
import { isDeepStrictEqual } from "node:util";
import { appLimits } from "../options/limiter.js";
import { descriptorRules } from "../options/service.js";
import { type Problem, problemAt } from "../problem.js";
import { needRestart, optionAt, withOption } from "../reach.js";
import type { Config } from "../schema.js";

export interface Restarts {
  /** Changed options that need a restart. */
  options: string[];
  /** Their new values. */
  waiting: Record<string, unknown>;
  /** One for each that an earlier forced reload has not deferred. */
  problems: Problem[];
}

/** `agreed`: values that an earlier forced reload deferred to the next start. */
export function restartsNeeded(wanted: Config, current: Config, agreed: Record<string, unknown>): Restarts {
  const options = needRestart.filter(
    (option) => !isDeepStrictEqual(optionAt(wanted, option), optionAt(current, option)),
  );
  const waiting = Object.fromEntries(options.map((option) => [option, optionAt(wanted, option)]));
  const problems = options
    .filter((option) => !(option in agreed) || !isDeepStrictEqual(agreed[option], waiting[option]))
    .map((option) => {
      const { path, value, reason } = problemAt(
        option.split("."),
        wanted,
        "a change needs a restart; force applies the other changes",
      );
      return { path, value, reason };
    });
  return { options, waiting, problems };
}

/** The configuration that can be applied now: options that need a restart keep their value. */
export function applicable(wanted: Config, current: Config, options: string[]): Config {
  let config = wanted;
  for (const option of options) config = withOption(config, option, optionAt(current, option));
  return config;
}

/** Number of entries of `limits` and rules of `rate_limits` that were added, removed or changed. */
export function changedLimits(config: Config, before: Config): number {
  return (
    differing(namedLimits(before), namedLimits(config)) +
    (isDeepStrictEqual(before.rate_limits, config.rate_limits) ? 0 : differing(rateLimits(before), rateLimits(config)))
  );
}

const namedLimits = ({ limits }: Config) => new Map<string, unknown>(limits.map((limit) => [limit.name, limit]));
const rateLimits = (config: Config) =>
  new Map<string, unknown>(descriptorRules(config).map((rule) => [rule.label, rule]));

function differing(old: ReadonlyMap<string, unknown>, now: ReadonlyMap<string, unknown>): number {
  const names = new Set([...old.keys(), ...now.keys()]);
  return [...names].filter((name) => !isDeepStrictEqual(old.get(name), now.get(name))).length;
}

/** Number of apps that were added, removed or changed. */
export function changedApps(config: Config, before: Config): number {
  const old = new Map(appLimits(before).map((app) => [app.id, app]));
  let changed = 0;
  for (const app of appLimits(config)) {
    if (!isDeepStrictEqual(old.get(app.id), app)) changed++;
    old.delete(app.id);
  }
  return changed + old.size;
}

/** Names in a message. */
const MOST_NAMED = 10;

const removable: { section: "apps" | "routes" | "limits"; names(config: Config): string[] }[] = [
  { section: "apps", names: ({ apps }) => Object.keys(apps) },
  { section: "routes", names: ({ routes }) => routes.map(({ host, path }) => `${host ?? ""}${path}`) },
  { section: "limits", names: ({ limits }) => limits.map(({ name }) => name) },
];

/**
 * Problems of a file that would remove most of the apps, routes or limits: it may be truncated or still be written. More than
 * half of them and at least two, or all.
 */
export function removalProblems(wanted: Config, current: Config): Problem[] {
  return removable.flatMap(({ section, names }) => {
    const before = new Set(names(current));
    const after = new Set(names(wanted));
    const removed = [...before].filter((name) => !after.has(name));
    const isAll = after.size === 0 && before.size > 0;
    if (!isAll && (removed.length < 2 || removed.length * 2 <= before.size)) return [];
    const more = removed.length > MOST_NAMED ? `, and ${removed.length - MOST_NAMED} more` : "";
    const which = `${removed.slice(0, MOST_NAMED).join(", ")}${more}`;
    const reason = `${removed.length} of ${before.size} would be removed (${which}); tollgate reload --confirm applies this`;
    return [{ path: section, value: "", reason }];
  });
}

/**
 * A file that is the beginning of the former one, and ends within a line or lacks whole sections, is probably truncated. Where
 * only the last entries of a section are gone, an operator may have removed them.
 */
export function truncationProblems(text: string, before: string): Problem[] {
  if (text.length >= before.length || !before.startsWith(text)) return [];
  const gone = sectionsOf(before).slice(sectionsOf(text).length);
  if (text.endsWith("\n") && gone.length === 0) return [];
  const what = gone.length === 0 ? "the end of its last line is missing" : `${gone.join(", ")} would be removed`;
  return [{ path: "file", value: "", reason: `seems truncated: ${what}; tollgate reload --confirm applies this` }];
}

const sectionsOf = (text: string) => text.match(/^[a-z_]+(?=:)/gm) ?? [];
