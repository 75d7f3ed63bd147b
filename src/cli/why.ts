/** `tollgate why`: explains why requests of an app are refused, with the balance of every layer and recent refusals. */
import * as contract from "../service/operations/contract/contract.js";
import { reasonText } from "./apps.js";
import { expectApp, operatorCommand, show } from "./control/operator-command.js";
import { showUsage } from "./limit-commands.js";
import { ago, amount, counted, percent, percentOf, perSecond, readWhole, span, whole } from "./numbers.js";
import { tableLines, toned, wrapped } from "./printing.js";

const help = `Usage: tollgate why APP [--last N]
       tollgate why LIMIT VALUE

Explains why requests of an app are refused: the balance of each layer, the debt, the leases of the nodes, refusals by
reason, and the most recent refusals with an explanation.

With a VALUE, explains the state of the bucket that the limit of this name has for the value.

  --last N  maximum number of refusals to show (default: 5)

Examples:
  tollgate why video-service
  tollgate why per-user ann
  tollgate why video-service --json | jq -r .why
`;

export const command = operatorCommand({
  help,
  options: { last: { type: "string", default: "5" } },
  words: ["APP", "[VALUE]"],
  run(call) {
    const app = call.words.required("APP");
    const value = call.words.optional("VALUE");
    if (value !== undefined) {
      return showUsage(call, { limit: app, value }, (reply, columns) => wrapped(reply.why, columns));
    }
    const last = readWhole("--last", call.values.last, { least: 0, most: 1_000 });
    const path = `/admin/ratelimit/apps/${encodeURIComponent(expectApp(app))}`;
    return show(call, { path, reply: contract.appReply }, (reply, columns) => whyLines(reply, { columns, last }));
  },
});

export function whyLines(reply: contract.AppReply, { columns, last }: { columns: number; last: number }): string[] {
  const { app_id, config, why } = reply;
  const limits = [
    `${amount(config.guaranteed)} tokens/s, burst ${whole(config.burst)}, priority ${config.priority}`,
    config.borrow ? "may borrow" : "may not borrow",
    `on store failure ${config.on_store_failure}`,
  ];
  return [
    toned("strong", app_id) + (config.dry_run ? toned("warning", "  dry run: its own limit refuses nothing") : ""),
    ...wrapped(why, columns, "  "),
    "",
    ...wrapped(limits.join(", "), columns),
    "",
    ...layerLines(reply, columns),
    "",
    ...requestLines(reply),
    ...refusalLines(reply, columns, last),
  ];
}

const UNAVAILABLE = "the store is unavailable";

function layerLines({ config, layers: { l1, l2, l3 } }: contract.AppReply, columns: number): string[] {
  const row = (name: string, tokens: number | null, all: number, note: string) => {
    if (tokens === null) return [name, toned("bad", "?"), "", "", UNAVAILABLE];
    const isLow = tokens < all * 0.05;
    return [name, toned(isLow ? "warning" : "good", whole(tokens)), whole(all), percentOf(tokens, all), note];
  };
  const debt = l2 !== null && l2.debt > 0 ? `, debt ${whole(l2.debt)}` : "";
  const recall = l3.recalling ? toned("warning", ", being recalled") : "";
  const nodes = l3.leases.length === 0 ? "no node holds a lease" : `on ${counted(l3.leases.length, "node")}${recall}`;
  const rows = [
    row("L1 cluster", l1.tokens, l1.capacity, `refills ${amount(l1.rate)}/s, shared by all apps`),
    row("L2 app", l2?.tokens ?? null, config.burst, `refills ${amount(config.guaranteed)}/s${debt}`),
    ["L3 leases", l3.held === null ? "?" : whole(l3.held), "", "", l3.held === null ? UNAVAILABLE : nodes],
  ];
  const titles = ["layer", ">tokens", ">maximum", ">full", ""];
  return [...tableLines(titles, rows, columns, { spare: ["", "full"] }), ...leaseLines(l3.leases, columns)];
}

function leaseLines(leases: contract.AppReply["layers"]["l3"]["leases"], columns: number): string[] {
  if (leases.length === 0) return [];
  const titles = ["node", "", ">held", ">balance", ">granted", ">spent", ">returned"];
  const rows = leases.map((lease) => [
    lease.node_id,
    lease.alive ? "" : toned("warning", "dead"),
    whole(lease.held),
    lease.balance === null ? "-" : whole(lease.balance),
    whole(lease.granted),
    whole(lease.spent),
    whole(lease.returned),
  ]);
  return tableLines(titles, rows, columns, { spare: ["returned", "spent", "granted"], indent: "  " });
}

function requestLines({ statistics }: contract.AppReply): string[] {
  const { requests, rejected, dry_run_rejected: passed, l3_hit_ratio: hits } = statistics;
  if (requests === 0)
    return ["no requests of this app yet: nginx reports its decisions within a second, Envoy with a later request"];
  const parts = [
    `${counted(requests, "request")} counted by this service, ${whole(rejected)} refused (${percentOf(rejected, requests)})`,
    ...(passed > 0 ? [`${whole(passed)} would be refused without a dry run`] : []),
    `${percent(hits)} decided locally`,
  ];
  return [parts.join(", "), ...reasonsOf(statistics).map(reasonLine)];
}

type Reason = contract.AppReply["statistics"]["reasons"][number];

/** An older service counts by code only. */
function reasonsOf({ reasons, refusals }: contract.AppReply["statistics"]): Omit<Reason, "layer">[] {
  if (reasons.length > 0) return reasons;
  return Object.entries(refusals)
    .map(([code, total]) => ({ code, total, limit: null, dry_run: false }))
    .sort((one, other) => other.total - one.total);
}

function reasonLine({ code, limit, dry_run, total }: Omit<Reason, "layer">): string {
  const by = limit === null ? "" : limit === "*" ? " by a limit" : ` by ${limit}`;
  const count = toned(dry_run ? "faint" : "warning", whole(total));
  return dry_run ? `  would refuse: ${code}${by}  ${count}` : `  ${code}${by}  ${count}`;
}

function refusalLines({ last_refusals, timestamp }: contract.AppReply, columns: number, last: number): string[] {
  const shown = last_refusals.slice(0, last);
  if (shown.length === 0) return last === 0 ? [] : ["no recent refusals"];
  const lines = shown.flatMap((each, at) => {
    // Consecutive refusals often have the same explanation.
    const isRepeated = each.explanation === shown[at - 1]?.explanation;
    const explanation = isRepeated ? [] : wrapped(each.explanation, columns, "    ");
    return [refusalLine(each, Date.parse(timestamp)), ...explanation];
  });
  return ["", toned("faint", "last refusals"), ...lines];
}

function refusalLine(refusal: contract.Refusal, now: number): string {
  const { layer, limit_name, method, cost, balance, retry_after_ms: retry, source, dry_run, node_id } = refusal;
  const wait =
    retry < 1_000 ? `${whole(retry)} ms` : retry < 10_000 ? `${perSecond(retry / 1000)} s` : span(retry / 1000);
  const facts = [
    `${method} for ${whole(cost)}`,
    `lease ${whole(balance)}`,
    retry > 0 ? `retry in ${wait}` : "do not retry",
    source,
    node_id,
  ];
  const reason = toned(dry_run ? "faint" : "warning", reasonText(refusal));
  const place = limit_name === undefined ? `  ${layer}` : "";
  return `  ${ago(refusal.timestamp, now)}  ${reason}${place}  ${toned("faint", facts.join(", "))}`;
}
