/** What lies between two configurations: options that wait for a restart, and apps whose limits differ. */
import { isDeepStrictEqual } from "node:util";
import { appLimits } from "./options/limits.js";
import { type Problem, problemAt } from "./problem.js";
import { needRestart, optionAt, withOption } from "./reach.js";
import type { Config } from "./schema.js";

export interface Restarts {
  /** Those that differ from what is in force. */
  options: string[];
  /** Their values. */
  waiting: Record<string, unknown>;
  /** One for each that nobody has agreed to yet. */
  problems: Problem[];
}

/** `agreed` is what an earlier reload left to the next start: a later one may leave it there, too. */
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
        "a change needs a restart; the rest can be forced",
      );
      return { path, value, reason };
    });
  return { options, waiting, problems };
}

/** What can hold now: the options that need a restart stay as they are. */
export function settledOptions(wanted: Config, current: Config, options: string[]): Config {
  let settled = wanted;
  for (const option of options) settled = withOption(settled, option, optionAt(current, option));
  return settled;
}

/** How many apps came, went, or have other limits. */
export function changedApps(config: Config, before: Config): number {
  const old = new Map(appLimits(before).map((app) => [app.id, app]));
  let changed = 0;
  for (const app of appLimits(config)) {
    if (!isDeepStrictEqual(old.get(app.id), app)) changed++;
    old.delete(app.id);
  }
  return changed + old.size;
}
