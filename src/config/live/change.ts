/** Compares two configurations: options that need a restart, and apps whose limits changed. */
import { isDeepStrictEqual } from "node:util";
import { appLimits } from "../options/limits.js";
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
