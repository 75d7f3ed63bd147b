/** Operations on limits of `limits` and `rate_limits`: their use, and tokens for single values. */
import { randomUUID } from "node:crypto";
import { nearest } from "../../config/nearest.js";
import { descriptorLimits } from "../../config/options/service.js";
import { quoted } from "../../config/problem.js";
import type { AppLimits } from "../../core/app-limits.js";
import { FILL_UP } from "../../limiter/limits/limit-values.js";
import { mapConcurrently } from "../../shared/concurrently.js";
import { noAppDecisions } from "../metrics/plane-totals.js";
import type { OperationsContext } from "./context.js";
import * as contract from "./contract/contract.js";
import { CHANGE_MS, ifAvailable, READ_MS, within } from "./deadline.js";
import { admin, badField, type Endpoint, ok, problem, Rejected } from "./endpoint.js";
import { type NamedLimit, namedLimits } from "./named-limits.js";
import { appTotals, limitDecisions } from "./statistics.js";

/** Concurrent store calls. */
const CONCURRENT = 8;

const unknownLimit = { 404: { summary: "The limit is not configured." } };

interface Bucket {
  limits: AppLimits;
  /** By live nodes, in their ledgers. */
  spent: number;
}

export function limitEndpoints(context: OperationsContext): Endpoint[] {
  const { quota, live } = context;

  function find(name: string | undefined): NamedLimit {
    const all = namedLimits(live.current());
    const found = all.find((limit) => limit.name === name);
    if (found !== undefined) return found;
    const likely = nearest(
      name ?? "",
      all.map((limit) => limit.name),
    );
    const more = { field: "limit", ...(likely === undefined ? {} : { detail: `did you mean ${likely}?` }) };
    throw new Rejected(
      problem(404, "unknown_limit", `there is no limit ${quoted(name ?? "")} in the configuration`, more),
    );
  }

  function bucketOf(limit: NamedLimit, value: string): AppLimits {
    const found = limit.bucketOf(value);
    if (typeof found === "string") throw badField("value", found);
    return found;
  }

  const fieldsOf = ({ name, key, rate, count, limits }: NamedLimit) => ({
    ...{ limit: name, key, rate, burst: limits.burst, count, dry_run: limits.dryRun },
  });

  /** What live nodes have spent, by bucket. */
  async function spentByBucket(): Promise<Map<string, number>> {
    const nodes = (await quota.nodes()).filter(({ alive }) => alive);
    const ledgers = await mapConcurrently(nodes, CONCURRENT, ({ node }) => quota.ledger(node));
    const spent = new Map<string, number>();
    for (const { app, spent: tokens } of ledgers.flatMap(({ apps }) => apps)) {
      spent.set(app, (spent.get(app) ?? 0) + tokens);
    }
    return spent;
  }

  async function usageOf(limit: NamedLimit, { limits, spent }: Bucket, asked: string | undefined) {
    const { tokens, granted, spent: total, returned } = await quota.inspect(limits);
    const held = Math.max(granted - total - returned, 0);
    const missing = Math.max(limits.burst - tokens - held, 0);
    return {
      value: limit.valueOf(limits.id, asked),
      used: Math.ceil(missing),
      remaining: Math.floor(tokens),
      held,
      reset_seconds: limits.guaranteed > 0 ? Math.ceil(missing / limits.guaranteed) : 0,
      spent,
    };
  }

  /** The bucket of the value, or those with the most spent tokens, if the ids of buckets say to which limit they belong. */
  function bucketsOf(limit: NamedLimit, spent: Map<string, number>, value: string | undefined): Bucket[] {
    const { prefix, key } = limit;
    if (value !== undefined || (prefix === undefined && key.length === 0)) {
      const limits = bucketOf(limit, value ?? "");
      return [{ limits, spent: spent.get(limits.id) ?? 0 }];
    }
    if (prefix === undefined) return [];
    return [...spent]
      .filter(([id]) => id.startsWith(prefix))
      .sort(([, one], [, other]) => other - one)
      .map(([id, tokens]) => ({ limits: { ...limit.limits, id }, spent: tokens }));
  }

  async function usage(name: string | undefined, value: string | undefined, top: number) {
    const limit = find(name);
    const spent = await spentByBucket();
    const buckets = bucketsOf(limit, spent, value);
    const inUse = value === undefined ? buckets.length : bucketsOf(limit, spent, undefined).length;
    const values = await mapConcurrently(buckets.slice(0, top), CONCURRENT, (bucket) => usageOf(limit, bucket, value));
    const why = value === undefined ? "" : whyText(limit, values[0]!);
    const decisionsAt = await readDecisions([limit]);
    return {
      ...fieldsOf(limit),
      decisions: decisionsAt(limit),
      in_use: inUse,
      values,
      why,
      timestamp: context.timestamp(),
    };
  }

  /** Requests and refusals at each of these limits. */
  async function readDecisions(limits: readonly NamedLimit[]) {
    const ofRules = limits.some(({ prefix }) => prefix !== undefined);
    const labels = limits.filter(({ prefix }) => prefix === undefined).map(({ name }) => name);
    const [reports, appReports] = await Promise.all([
      ofRules ? ifAvailable(context.ask({ kind: "limits" })) : [],
      labels.length === 0 ? [] : ifAvailable(context.ask({ kind: "apps", apps: labels })),
    ]);
    const byRule = limitDecisions([...(reports ?? []).flat(), ...context.planes.totals.limits()]);
    const byLabel = appTotals(labels, appReports ?? [], context.planes.totals.ofApp);
    return ({ name, prefix }: NamedLimit) => {
      if (prefix !== undefined)
        return byRule.get(name) ?? { requests: 0, allowed: 0, rejected: 0, dry_run_rejected: 0 };
      return contract.countsOf(byLabel.get(name) ?? noAppDecisions());
    };
  }

  async function rules(): Promise<contract.LimitsReply["limits"]> {
    const limits = namedLimits(live.current()).filter(({ prefix }) => prefix !== undefined);
    const decisionsAt = await readDecisions(limits);
    return limits.map((limit) => ({ ...fieldsOf(limit), decisions: decisionsAt(limit) }));
  }

  async function change(name: string | undefined, value: string, amount: number) {
    const limit = find(name);
    const bucket = bucketOf(limit, value);
    const before = await within(CHANGE_MS, quota.inspect(bucket));
    const { added, remaining } = await within(CHANGE_MS, quota.credit(bucket, amount, randomUUID()));
    const explanation = explainChange(limit.limits, { amount, added, remaining, before });
    const done = { limit: limit.name, value: limit.valueOf(bucket.id, value), added, remaining, explanation };
    return { done, audited: { before: { remaining: Math.floor(before.tokens) }, after: { remaining } } };
  }

  async function descriptors(): Promise<contract.LimitsReply["descriptors"]> {
    const configured = descriptorLimits(live.current());
    if (configured.length === 0) return [];
    const labels = configured.map(({ label }) => label);
    const reports = (await ifAvailable(context.ask({ kind: "apps", apps: labels }))) ?? [];
    const totals = appTotals(labels, reports, () => undefined);
    return configured.map(({ label, rate, dryRun }) => {
      const total = totals.get(label) ?? noAppDecisions();
      const [last] = total.lastRefusals;
      return {
        name: label,
        rate,
        dry_run: dryRun,
        ...contract.countsOf(total),
        last_refusal: last === undefined ? null : new Date(last.at).toISOString(),
      };
    });
  }

  return [
    admin("GET", "limits", {
      summary: "All limits of `limits` and `rate_limits` with their requests and refusals.",
      reply: contract.limitsReply,
      handle: async () =>
        ok({
          limits: await rules(),
          descriptors: await descriptors(),
          timestamp: context.timestamp(),
        }),
    }),

    admin("GET", "limits/{name}", {
      summary: "The use of a limit: of one value, or of the values with the most spent tokens.",
      query: contract.limitUsageQuery,
      reply: contract.limitUsageReply,
      others: unknownLimit,
      handle: async ({ params, query: { value, top } }) => ok(await within(READ_MS, usage(params.name, value, top))),
    }),

    admin("POST", "limits/{name}/reset", {
      summary: "Fills the bucket of a value.",
      action: "limit-reset",
      request: contract.limitResetRequest,
      reply: contract.limitChangeReply,
      others: unknownLimit,
      async handle({ params, body: { value } }) {
        const { done, audited } = await change(params.name, value, FILL_UP);
        return ok({ status: "reset" as const, ...done, timestamp: context.timestamp() }, audited);
      },
    }),

    admin("POST", "limits/{name}/top-up", {
      summary: "Adds tokens to the bucket of a value, up to its burst.",
      action: "limit-top-up",
      request: contract.limitTopUpRequest,
      reply: contract.limitChangeReply,
      others: unknownLimit,
      async handle({ params, body: { value, amount } }) {
        const { done, audited } = await change(params.name, value, amount);
        return ok({ status: "topped_up" as const, ...done, timestamp: context.timestamp() }, audited);
      },
    }),
  ];
}

function whyText({ limits, name }: NamedLimit, usage: contract.LimitUsageReply["values"][number]): string {
  const { value, remaining, held, used } = usage;
  const perToken = Math.ceil((1 - Math.max(remaining, 0)) / limits.guaranteed);
  const holding = held > 0 ? ` ${held} are on leases of nodes, which return them when others need them.` : "";
  if (remaining >= 1) return `${value} has ${remaining} of ${limits.burst} tokens of ${name}.${holding}`;
  const further = limits.dryRun
    ? "further requests would be refused, but are admitted because the limit is on a dry run."
    : "further requests are refused.";
  return `${value} has used ${used} of ${limits.burst} tokens of ${name}: ${further} One token comes back in ${perToken} s.${holding}`;
}

interface Change {
  /** `FILL_UP` to fill the bucket. */
  amount: number;
  added: number;
  remaining: number;
  before: { granted: number; spent: number; returned: number };
}

/** Why less was added than asked for. Tokens on leases count towards the burst. */
function explainChange({ burst }: NamedLimit["limits"], { amount, added, remaining, before }: Change): string {
  const held = Math.max(before.granted - before.spent - before.returned, 0);
  if (added >= amount || (amount === FILL_UP && added > 0)) return "";
  const all = `The bucket holds at most its burst of ${burst} tokens`;
  if (held === 0) return `${all}: it is full.`;
  return `${all}: ${remaining} are in it, and ${held} are on leases of nodes, which spend or return them.`;
}
