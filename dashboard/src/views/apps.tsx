/** Apps: search, sort, and one page of the list, refreshed every two seconds. */
import { useEffect, useState } from "preact/hooks";
import type { AppsReply } from "../../../src/service/operations/contract/contract.js";
import { admin } from "../api.js";
import { ago, count, NONE, plural, short, words } from "../format.js";
import { Card, Empty, Failure, Loading, PageHead, Search } from "../parts/parts.js";
import { AppLink, bucketColumns, DryRunBadge, decisionColumns, Table } from "../parts/table.js";

const PAGE = 50;
const REFRESH_MS = 2_000;
/** The API accepts no more. */
const MAX_SEARCH = 128;

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
          <Search
            label="Search apps by name"
            placeholder="Search by name"
            value={search}
            maxLength={MAX_SEARCH}
            changed={(text) => {
              setSearch(text);
              setOffset(0);
            }}
          />
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
        <Failure text={failure} />
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
  return (
    <Table
      rows={reply.apps}
      keyOf={({ app_id }) => app_id}
      columns={[
        {
          title: "App",
          cell: (app) => (
            <>
              <AppLink id={app.app_id} /> <DryRunBadge {...app} />
            </>
          ),
        },
        ...decisionColumns(reply.apps, (app) => app),
        ...bucketColumns("Tokens", ({ l2_tokens, ...app }: App) => ({ ...app, tokens: l2_tokens })),
        {
          title: "Rate",
          kind: "number",
          isWideOnly: true,
          class: "nowrap",
          cell: ({ guaranteed }) => `${short(guaranteed)}/s`,
        },
        { title: "Debt", kind: "number", cell: ({ debt }) => (debt === null || debt < 1 ? NONE : short(debt)) },
        {
          title: "Last refusal",
          isWideOnly: true,
          class: "text-faint",
          cell: ({ last_refusal: last }) =>
            last === null ? NONE : `${lastRefusal(last)}, ${ago(now - Date.parse(last.timestamp))}`,
        },
      ]}
    />
  );
}

type App = AppsReply["apps"][number];
type LastRefusal = NonNullable<App["last_refusal"]>;

function lastRefusal({ code, limit_name, dry_run }: LastRefusal): string {
  const by = limit_name === undefined ? "" : ` by ${limit_name}`;
  return dry_run ? `Would be refused: ${words(code).toLowerCase()}${by}` : `${words(code)}${by}`;
}
