/** Apps: search, sort, and one page of the list, refreshed every two seconds. */
import { useEffect, useState } from "preact/hooks";
import type { AppsReply } from "../../../src/service/operations/contract/contract.js";
import { admin } from "../api.js";
import { ago, count, plural, short, words } from "../format.js";
import { Icon } from "../parts/icons.js";
import { Badge, Bar, Card, Empty, Loading, PageHead } from "../parts/parts.js";

const PAGE = 50;
const REFRESH_MS = 2_000;

const orders = [
  ["requests", "Most requests"],
  ["rejected", "Most refusals"],
  ["id", "Name"],
  ["config", "As configured"],
] as const;

export function AppsView() {
  const [search, setSearch] = useState("");
  const [sort, setSort] = useState<string>("requests");
  const [offset, setOffset] = useState(0);
  const [reply, setReply] = useState<AppsReply | undefined>();
  const [failure, setFailure] = useState("");

  useEffect(() => {
    let isOver = false;
    let timer: ReturnType<typeof setTimeout>;
    const load = async () => {
      const query = new URLSearchParams({ search, sort, offset: String(offset), limit: String(PAGE) });
      const result = await admin<AppsReply>("GET", `apps?${query}`);
      if (isOver) return;
      if (result.ok) setReply(result.value);
      setFailure(result.ok ? "" : result.failure.detail || result.failure.reason);
      timer = setTimeout(() => void load(), REFRESH_MS);
    };
    // While typing, wait for the next key.
    timer = setTimeout(() => void load(), reply === undefined ? 0 : 150);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [search, sort, offset]);

  const total = reply?.total ?? 0;
  return (
    <>
      <PageHead title="Apps">
        <form class="filters" onSubmit={(event) => event.preventDefault()}>
          <div class="search">
            <Icon name="search" size={16} />
            <input
              type="search"
              aria-label="Search apps by name"
              placeholder="Search by name"
              value={search}
              maxLength={128}
              onInput={(event) => {
                setSearch(event.currentTarget.value);
                setOffset(0);
              }}
            />
          </div>
          <select
            aria-label="Order"
            value={sort}
            onChange={(event) => {
              setSort(event.currentTarget.value);
              setOffset(0);
            }}
          >
            {orders.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </form>
      </PageHead>
      <Card
        title={reply === undefined ? "Apps" : plural(total, "app")}
        action={total > PAGE && <Pages offset={offset} total={total} go={setOffset} />}
      >
        {failure !== "" && (
          <p class="form-error" role="alert">
            {failure}
          </p>
        )}
        {reply === undefined ? (
          failure === "" && <Loading rows={8} />
        ) : reply.apps.length === 0 ? (
          <Empty icon="search" title="No app matches">
            No app has “{search}” in its name.
          </Empty>
        ) : (
          <AppsTable reply={reply} />
        )}
      </Card>
    </>
  );
}

function Pages({ offset, total, go }: { offset: number; total: number; go(offset: number): void }) {
  return (
    <div class="pages">
      <span class="num">
        {count(offset + 1)}–{count(Math.min(offset + PAGE, total))}
      </span>
      <button type="button" class="secondary" disabled={offset === 0} onClick={() => go(Math.max(offset - PAGE, 0))}>
        Previous
      </button>
      <button type="button" class="secondary" disabled={offset + PAGE >= total} onClick={() => go(offset + PAGE)}>
        Next
      </button>
    </div>
  );
}

function AppsTable({ reply }: { reply: AppsReply }) {
  const now = Date.parse(reply.timestamp);
  const hasDryRun = reply.apps.some(({ dry_run_rejected }) => dry_run_rejected > 0);
  return (
    <div class="table-box">
      <table>
        <thead>
          <tr>
            <th>App</th>
            <th class="right">Requests</th>
            <th class="right">Refused</th>
            {hasDryRun && <th class="right">Would be refused</th>}
            <th class="right">Tokens</th>
            <th class="bar-cell wide-only" aria-label="Fill level" />
            <th class="right wide-only">Rate</th>
            <th class="right">Debt</th>
            <th class="wide-only">Last refusal</th>
          </tr>
        </thead>
        <tbody>
          {reply.apps.map((app) => (
            <tr key={app.app_id}>
              <td>
                <a class="id" href={`#/apps/${encodeURIComponent(app.app_id)}`}>
                  {app.app_id}
                </a>{" "}
                {app.dry_run && <Badge tone="info">dry run</Badge>}
              </td>
              <td class="right num">{short(app.requests)}</td>
              <td class={`right num ${app.rejected > 0 ? "text-bad" : "text-faint"}`}>{short(app.rejected)}</td>
              {hasDryRun && <td class="right num text-faint">{short(app.dry_run_rejected)}</td>}
              <td class="right num nowrap">
                {app.l2_tokens === null ? "unknown" : short(Math.floor(app.l2_tokens))}{" "}
                <span class="text-faint">/ {short(app.burst)}</span>
              </td>
              <td class="wide-only">
                <Bar
                  share={(app.l2_tokens ?? 0) / Math.max(app.burst, 1)}
                  label={`Tokens in the bucket of ${app.app_id}`}
                />
              </td>
              <td class="right num wide-only nowrap">{short(app.guaranteed)}/s</td>
              <td class="right num">{app.debt === null || app.debt < 1 ? "–" : short(app.debt)}</td>
              <td class="wide-only text-faint">
                {app.last_refusal === null
                  ? "–"
                  : `${lastRefusal(app.last_refusal)}, ${ago(now - Date.parse(app.last_refusal.timestamp))}`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

type LastRefusal = NonNullable<AppsReply["apps"][number]["last_refusal"]>;

function lastRefusal({ code, limit_name, dry_run }: LastRefusal): string {
  const by = limit_name === undefined ? "" : ` by ${limit_name}`;
  return dry_run ? `Would be refused: ${words(code).toLowerCase()}${by}` : `${words(code)}${by}`;
}
