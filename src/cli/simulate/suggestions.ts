/** The result of `tollgate simulate --suggest`: for each app and limit the rates, and what the real limiter refuses with each. */
import { appLimits } from "../../config/options/limiter.js";
import type { Config } from "../../config/schema.js";
import { parseRate } from "../../limiter/limits/limit-options.js";
import type { Replay } from "../../simulate/replay.js";
import { amount, percent, whole } from "../numbers.js";
import { tableLines, toned } from "../printing.js";

export interface Suggested {
  /** The current configuration first, then one for each share. */
  configs: Config[];
  /** Of each configuration but the first: the share of requests that it may refuse. */
  shares: readonly number[];
  replay: Replay;
}

interface Row {
  app?: string;
  limit?: string;
  /** Null: as configured. */
  max_share: number | null;
  rate: string;
  burst: number;
  requests: number;
  refused: number;
}

/** Of the apps and limits that occur in the log. */
function rowsOf({ configs, shares, replay }: Suggested): Row[] {
  const [current] = replay.outcomes;
  if (current === undefined) return [];
  const runs = configs.flatMap((config, i) => {
    const outcome = replay.outcomes[i];
    const max_share = i === 0 ? null : (shares[i - 1] ?? null);
    return outcome === undefined ? [] : [{ config, limitsOfApps: appLimits(config), outcome, max_share }];
  });
  const apps = current.apps.flatMap(({ app }) =>
    runs.flatMap(({ limitsOfApps, outcome, max_share }): Row[] => {
      const limits = limitsOfApps.find(({ id }) => id === app);
      const found = outcome.apps.find((one) => one.app === app);
      if (limits === undefined || found === undefined) return [];
      const { guaranteed, burst } = limits;
      const { requests, ownRefused: refused } = found;
      return [{ app, max_share, rate: `${amount(guaranteed)}/s`, burst, requests, refused }];
    }),
  );
  const limits = current.limits.flatMap(({ limit }) =>
    runs.flatMap(({ config, outcome, max_share }): Row[] => {
      const options = config.limits.find(({ name }) => name === limit);
      const found = outcome.limits.find((one) => one.limit === limit);
      if (options === undefined || found === undefined) return [];
      const { rate, burst = parseRate(rate)!.tokens } = options;
      const { requests, refused } = found;
      return [{ limit, max_share, rate, burst, requests, refused }];
    }),
  );
  return [...apps, ...limits];
}

export function suggestionLines(suggested: Suggested, columns: number): string[] {
  const rows = rowsOf(suggested);
  if (rows.length === 0) return [];
  const table = rows.map(({ app, limit, max_share, rate, burst, requests, refused }) => [
    max_share === null ? toned("strong", app ?? `limit ${limit}`) : "",
    max_share === null ? "as configured" : max_share === 0 ? "none" : `at most ${percent(max_share)}`,
    rate,
    whole(burst),
    refused > 0 ? toned("bad", whole(refused)) : whole(refused),
    percent(refused / Math.max(requests, 1)),
  ]);
  return [
    "",
    "Suggested: the lowest rates that refuse no more than this. What each refuses was simulated with the limiter.",
    ...tableLines(["app or limit", "to refuse", ">rate", ">burst", ">refused", ">share"], table, columns, {
      spare: [],
    }),
  ];
}

export const suggestionData = (suggested: Suggested) => rowsOf(suggested);
