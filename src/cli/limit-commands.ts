/** `tollgate usage`, `tollgate reset` and `tollgate top-up`: limits of `limits` and the buckets of their values. */
import * as contract from "../service/operations/contract/contract.js";
import { countCells, WOULD_REFUSE } from "./apps.js";
import { EXIT_OK } from "./command.js";
import { type Answer, expectApp, type OperatorCall, operatorCommand, show } from "./control/operator-command.js";
import { ago, counted, percentOf, readWhole, span, whole } from "./numbers.js";
import { tableLines, toned, wrapped } from "./printing.js";

const pathOf = (name: string) => `/admin/ratelimit/limits/${encodeURIComponent(expectApp(name))}`;

/** Shows the use of a limit, of one value or of the values with the most spent tokens. */
export function showUsage(
  call: Pick<OperatorCall, "client" | "columns">,
  { limit, value }: { limit: string; value?: string | undefined },
  lines: (reply: contract.LimitUsageReply, columns: number) => string[],
): Promise<Answer> {
  const query = value === undefined ? "" : `?value=${encodeURIComponent(value)}`;
  return show(call, { path: `${pathOf(limit)}${query}`, reply: contract.limitUsageReply }, lines, () => EXIT_OK);
}

export const usage = operatorCommand({
  help: `Usage: tollgate usage [LIMIT [VALUE]]

Lists all limits with their requests and refusals since the service started. With a LIMIT of \`limits\`, shows its use: of one
value, or of the values with the most spent tokens. The parts of a VALUE are separated by commas, in the order of the key.
A request counts as refused at each limit that refused it. What a dry run admitted is counted as "would refuse".
A limit of \`rate_limits\` is named as in the list; its values are not stored, so only the use of a given VALUE is shown.

Examples:
  tollgate usage
  tollgate usage per-user
  tollgate usage per-user ann
  tollgate usage rate-limit:api/user ann
`,
  words: ["[LIMIT]", "[VALUE]"],
  run(call) {
    const limit = call.words.optional("LIMIT");
    if (limit === undefined)
      return show(call, { path: "/admin/ratelimit/limits", reply: contract.limitsReply }, limitsLines);
    return showUsage(call, { limit, value: call.words.optional("VALUE") }, usageLines);
  },
});

export function limitsLines({ limits, descriptors, timestamp }: contract.LimitsReply, columns: number): string[] {
  const name = (text: string, isDry: boolean) => (isDry ? `${text} (dry run)` : text);
  const isDry = ({ dry_run_rejected }: { dry_run_rejected: number }) => dry_run_rejected > 0;
  const dryRules = limits.some(({ decisions }) => decisions !== null && isDry(decisions));
  const dryDescriptors = descriptors.some(isDry);
  const countTitles = (hasDry: boolean) => [">requests", ">refused", ...(hasDry ? [WOULD_REFUSE] : [])];
  const rows = limits.map(({ limit, key, rate, burst, count, dry_run, decisions }) => [
    name(limit, dry_run),
    key.length === 0 ? "all requests" : key.join(", "),
    rate,
    whole(burst),
    ...(decisions === null ? countTitles(dryRules).map(() => "?") : countCells(decisions, dryRules)),
    count === "cost" ? "cost" : "requests",
  ]);
  const counts = descriptors.map((one) => [
    name(one.name, one.dry_run),
    one.rate,
    ...countCells(one, dryDescriptors),
    one.last_refusal === null ? "" : ago(one.last_refusal, Date.parse(timestamp)),
  ]);
  if (rows.length + counts.length === 0) return ["no limits are configured besides apps"];
  return [
    ...(rows.length === 0
      ? []
      : tableLines(["limit", "key", ">rate", ">burst", ...countTitles(dryRules), "counts"], rows, columns, {
          spare: ["counts", "burst"],
        })),
    ...(rows.length > 0 && counts.length > 0 ? [""] : []),
    ...(counts.length === 0
      ? []
      : tableLines(["rate limit of Envoy", ">rate", ...countTitles(dryDescriptors), "last refusal"], counts, columns, {
          spare: ["last refusal"],
        })),
  ];
}

export function usageLines(reply: contract.LimitUsageReply, columns: number): string[] {
  const { limit, key, rate, burst, count, dry_run, decisions, in_use, values } = reply;
  const per = key.length === 0 ? "for all requests" : `per ${key.join(", ")}`;
  const dry = dry_run ? toned("warning", "  dry run: this limit refuses nothing") : "";
  const head = [
    `${toned("strong", limit)}  ${rate} ${per}, burst ${whole(burst)}, counted by ${count}${dry}`,
    ...(decisions === null ? [] : [decisionsLine(decisions)]),
  ];
  if (values.length === 0) return [...head, "no value is in use"];
  const rows = values.map(({ value, used, remaining, held, reset_seconds, spent }) => [
    value === "" ? "(none)" : value,
    whole(used),
    remaining < 1 ? toned("warning", whole(Math.max(remaining, 0))) : whole(remaining),
    whole(held),
    reset_seconds === 0 ? "full" : span(reset_seconds),
    whole(spent),
  ]);
  const titles = ["value", ">used", ">remaining", ">on leases", ">full in", ">spent"];
  return [
    ...head,
    ...tableLines(titles, rows, columns, { spare: ["spent", "on leases"] }),
    toned("faint", `${counted(in_use, "value")} in use`),
  ];
}

function decisionsLine(counts: NonNullable<contract.LimitUsageReply["decisions"]>): string {
  const { requests, rejected, dry_run_rejected: passed } = counts;
  const share = rejected > 0 ? toned("warning", `${whole(rejected)} refused`) : "0 refused";
  const dry = passed > 0 ? `, ${whole(passed)} would be refused without a dry run` : "";
  return `${counted(requests, "request")} counted by this service, ${share} (${percentOf(rejected, requests)})${dry}`;
}

export const reset = operatorCommand({
  help: `Usage: tollgate reset LIMIT VALUE

Fills the bucket that a limit has for the value. Nodes that refuse its requests notice within a second.

Examples:
  tollgate reset logins 192.0.2.7 --reason "support ticket"
`,
  isMutating: true,
  words: ["LIMIT", "VALUE"],
  run(call) {
    const body = { value: call.words.required("VALUE"), ...call.signature };
    return show(
      call,
      { method: "POST", path: `${pathOf(call.words.required("LIMIT"))}/reset`, body, reply: contract.limitChangeReply },
      changeLines,
    );
  },
});

const MAX_AMOUNT = 1_000_000_000;

export const topUp = operatorCommand({
  help: `Usage: tollgate top-up LIMIT VALUE AMOUNT

Adds tokens to the bucket that a limit has for the value, up to its burst. Tokens on leases of nodes count towards the burst.

Examples:
  tollgate top-up per-user ann 50
`,
  isMutating: true,
  words: ["LIMIT", "VALUE", "AMOUNT"],
  run(call) {
    const amount = readWhole("AMOUNT", call.words.required("AMOUNT"), { least: 1, most: MAX_AMOUNT });
    const body = { value: call.words.required("VALUE"), amount, ...call.signature };
    return show(
      call,
      {
        method: "POST",
        path: `${pathOf(call.words.required("LIMIT"))}/top-up`,
        body,
        reply: contract.limitChangeReply,
      },
      changeLines,
    );
  },
});

export function changeLines(reply: contract.LimitChangeReply, columns: number): string[] {
  const { limit, value, added, remaining, explanation } = reply;
  const got = toned(added > 0 ? "good" : "warning", `${limit}: ${value} got ${counted(added, "token")}`);
  return [
    `${got}, ${whole(remaining)} in the bucket`,
    ...(explanation === "" ? [] : wrapped(explanation, columns, "  ")),
  ];
}
