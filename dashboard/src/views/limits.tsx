/** Limits on any key: the list, and one limit with the values that use it most. */
import { useState } from "preact/hooks";
import type { LimitsReply, LimitUsageReply } from "../../../src/service/operations/contract/contract.js";
import { useReply } from "../api.js";
import { ago, count, duration, NONE, plural, short } from "../format.js";
import { Icon } from "../parts/icons.js";
import { Badge, Bar, Card, Empty, Failure, Loading, PageHead, Search, Tile } from "../parts/parts.js";
import { DecisionTiles, DryRunBadge, decisionColumns, Table } from "../parts/table.js";

export function LimitsView() {
  const { reply, failure } = useReply<LimitsReply>("limits", 5_000);
  const [search, setSearch] = useState("");
  const found = reply?.limits.filter(({ limit, key }) => limit.includes(search) || key.join(",").includes(search));
  return (
    <>
      <PageHead title="Limits">
        <Search label="Search limits by name or key" value={search} changed={setSearch} />
      </PageHead>
      <Card title={found === undefined ? "Limits" : plural(found.length, "limit")}>
        <Failure text={failure} />
        {found === undefined ? (
          failure === "" && <Loading rows={6} />
        ) : reply?.limits.length === 0 && search === "" ? (
          <Empty icon="limits" title="No limits are configured">
            Apps have their own rates. Add limits to restrict users, addresses, routes or other keys.
          </Empty>
        ) : found.length === 0 ? (
          <Empty icon="search" title="No limit matches">
            No limit has “{search}” in its name or key.
          </Empty>
        ) : (
          <LimitsTable limits={found} />
        )}
      </Card>
      {reply !== undefined && reply.descriptors.length > 0 && <Descriptors reply={reply} search={search} />}
    </>
  );
}

function Descriptors({ reply, search }: { reply: LimitsReply; search: string }) {
  const found = reply.descriptors.filter(({ name }) => name.includes(search));
  const now = Date.parse(reply.timestamp);
  return (
    <Card title={`${plural(found.length, "rate limit")} of Envoy`}>
      {found.length === 0 ? (
        <Empty icon="search" title="No rate limit matches" />
      ) : (
        <Table
          rows={found}
          keyOf={({ name }) => name}
          columns={[
            {
              title: "Descriptor",
              class: "id value",
              cell: (one) => (
                <>
                  {one.name} <DryRunBadge {...one} />
                </>
              ),
            },
            { title: "Rate", kind: "number", class: "nowrap", cell: ({ rate }) => rate },
            ...decisionColumns(found, (one) => one),
            {
              title: "Last refusal",
              isWideOnly: true,
              class: "text-faint",
              cell: ({ last_refusal: last }) => (last === null ? NONE : ago(now - Date.parse(last))),
            },
          ]}
        />
      )}
    </Card>
  );
}

function LimitsTable({ limits }: { limits: LimitsReply["limits"] }) {
  return (
    <Table
      rows={limits}
      keyOf={({ limit }) => limit}
      columns={[
        {
          title: "Limit",
          cell: ({ limit, dry_run }) => (
            <>
              <a class="id" href={`#/limits/${encodeURIComponent(limit)}`}>
                {limit}
              </a>{" "}
              <DryRunBadge dry_run={dry_run} />
            </>
          ),
        },
        { title: "Key", class: "mono nowrap", cell: ({ key }) => key.join(", ") || "all requests" },
        { title: "Rate", kind: "number", class: "nowrap", cell: ({ rate }) => rate },
        { title: "Burst", kind: "number", isWideOnly: true, cell: ({ burst }) => short(burst) },
        ...decisionColumns(limits, ({ decisions }) => decisions),
        {
          title: "Counts",
          isWideOnly: true,
          cell: ({ count: counts }) => (counts === "cost" ? "cost" : "requests"),
        },
      ]}
    />
  );
}

const TOP = 50;

export function LimitDetail({ name }: { name: string }) {
  const [value, setValue] = useState("");
  const query = value === "" ? `top=${TOP}` : new URLSearchParams({ value }).toString();
  const { reply, failure } = useReply<LimitUsageReply>(`limits/${encodeURIComponent(name)}?${query}`, 3_000);
  return (
    <>
      <PageHead title={name}>
        <a class="back" href="#/limits">
          <Icon name="back" size={16} /> All limits
        </a>
        {reply?.dry_run === true && <Badge tone="info">dry run</Badge>}
        <form
          class="filters"
          onSubmit={(event) => {
            event.preventDefault();
            const form = new FormData(event.currentTarget);
            setValue(String(form.get("value") ?? "").trim());
          }}
        >
          <Search name="value" label="Find one value" placeholder="One value, then Enter" />
        </form>
      </PageHead>
      {reply === undefined ? (
        <Card title="Values">{failure === "" ? <Loading rows={6} /> : <Failure text={failure} />}</Card>
      ) : (
        <>
          <dl class="tiles">
            <Tile
              label="Key"
              value={reply.key.join(", ") || "none"}
              note={`counts ${reply.count === "cost" ? "cost" : "requests"}`}
            />
            <Tile label="Rate" value={reply.rate} note={`burst ${short(reply.burst)}`} />
            {reply.decisions !== null && (
              <DecisionTiles decisions={reply.decisions} isDryRun={reply.dry_run} note="since the gateways started" />
            )}
            <Tile label="Values in use" value={count(reply.in_use)} note="reported lately by live nodes" />
          </dl>
          {reply.why !== "" && <p class="why card">{reply.why}</p>}
          <Card
            title={value === "" ? `Values with the most spent tokens, at most ${TOP}` : "One value"}
            action={
              value !== "" && (
                <button type="button" class="secondary" onClick={() => setValue("")}>
                  Show the top values
                </button>
              )
            }
          >
            <Failure text={failure} />
            {reply.values.length === 0 ? (
              <Empty icon="limits" title="No value is in use">
                Requests that match this limit appear here.
              </Empty>
            ) : (
              <ValuesTable reply={reply} />
            )}
          </Card>
        </>
      )}
    </>
  );
}

function ValuesTable({ reply: { values, burst } }: { reply: LimitUsageReply }) {
  return (
    <Table
      rows={values}
      keyOf={({ value }) => value}
      columns={[
        { title: "Value", class: "id value", cell: ({ value }) => value },
        {
          title: "Used",
          kind: "number",
          class: "nowrap",
          cell: ({ used }) => (
            <>
              {short(used)} <span class="text-faint">/ {short(burst)}</span>
            </>
          ),
        },
        {
          title: "Used share of the burst",
          kind: "bar",
          isWideOnly: true,
          cell: ({ value, used }) => (
            <Bar
              share={used / Math.max(burst, 1)}
              label={`Used tokens of ${value}`}
              tone={used >= burst ? "bad" : "info"}
            />
          ),
        },
        {
          title: "Left",
          kind: "number",
          class: ({ remaining }) => (remaining < 1 ? "text-bad" : ""),
          cell: ({ remaining }) => short(remaining),
        },
        { title: "On leases", kind: "number", isWideOnly: true, cell: ({ held }) => short(held) },
        { title: "Spent", kind: "number", cell: ({ spent }) => short(spent) },
        {
          title: "Full again in",
          kind: "number",
          class: "nowrap",
          cell: ({ reset_seconds }) => (reset_seconds === 0 ? NONE : duration(reset_seconds)),
        },
      ]}
    />
  );
}
