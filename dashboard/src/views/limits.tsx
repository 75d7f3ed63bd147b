/** Limits on any key: the list, and one limit with the values that use it most. */
import { useState } from "preact/hooks";
import type { LimitsReply, LimitUsageReply } from "../../../src/service/operations/contract/contract.js";
import { useReply } from "../api.js";
import { ago, count, duration, percent, plural, short } from "../format.js";
import { Icon } from "../parts/icons.js";
import { Badge, Bar, Card, Empty, Failure, Loading, PageHead, Search, Tile } from "../parts/parts.js";

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
  const hasDryRun = found.some(({ dry_run_rejected }) => dry_run_rejected > 0);
  return (
    <Card title={`${plural(found.length, "rate limit")} of Envoy`}>
      {found.length === 0 ? (
        <Empty icon="search" title="No rate limit matches" />
      ) : (
        <div class="table-box">
          <table>
            <thead>
              <tr>
                <th>Descriptor</th>
                <th class="right">Rate</th>
                <th class="right">Requests</th>
                <th class="right">Refused</th>
                {hasDryRun && <th class="right">Would be refused</th>}
                <th class="wide-only">Last refusal</th>
              </tr>
            </thead>
            <tbody>
              {found.map((one) => (
                <tr key={one.name}>
                  <td class="id value">
                    {one.name} {one.dry_run && <Badge tone="info">dry run</Badge>}
                  </td>
                  <td class="right num nowrap">{one.rate}</td>
                  <td class="right num">{short(one.requests)}</td>
                  <td class={`right num ${one.rejected > 0 ? "text-bad" : "text-faint"}`}>{short(one.rejected)}</td>
                  {hasDryRun && <td class="right num text-faint">{short(one.dry_run_rejected)}</td>}
                  <td class="wide-only text-faint">
                    {one.last_refusal === null ? "–" : ago(now - Date.parse(one.last_refusal))}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

function LimitsTable({ limits }: { limits: LimitsReply["limits"] }) {
  const hasDryRun = limits.some(({ decisions }) => decisions !== null && decisions.dry_run_rejected > 0);
  return (
    <div class="table-box">
      <table>
        <thead>
          <tr>
            <th>Limit</th>
            <th>Key</th>
            <th class="right">Rate</th>
            <th class="right wide-only">Burst</th>
            <th class="right">Requests</th>
            <th class="right">Refused</th>
            {hasDryRun && <th class="right">Would be refused</th>}
            <th class="wide-only">Counts</th>
          </tr>
        </thead>
        <tbody>
          {limits.map(({ limit, key, rate, burst, count: counts, dry_run, decisions }) => (
            <tr key={limit}>
              <td>
                <a class="id" href={`#/limits/${encodeURIComponent(limit)}`}>
                  {limit}
                </a>{" "}
                {dry_run && <Badge tone="info">dry run</Badge>}
              </td>
              <td class="mono nowrap">{key.join(", ") || "all requests"}</td>
              <td class="right num nowrap">{rate}</td>
              <td class="right num wide-only">{short(burst)}</td>
              <td class="right num">{short(decisions?.requests)}</td>
              <td class={`right num ${(decisions?.rejected ?? 0) > 0 ? "text-bad" : "text-faint"}`}>
                {short(decisions?.rejected)}
              </td>
              {hasDryRun && <td class="right num text-faint">{short(decisions?.dry_run_rejected)}</td>}
              <td class="wide-only">{counts === "cost" ? "cost" : "requests"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
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
            {reply.decisions !== null && <Decisions decisions={reply.decisions} isDryRun={reply.dry_run} />}
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

interface DecisionsProps {
  decisions: NonNullable<LimitUsageReply["decisions"]>;
  isDryRun: boolean;
}

function Decisions({ decisions: { requests, rejected, dry_run_rejected }, isDryRun }: DecisionsProps) {
  return (
    <>
      <Tile label="Requests" value={short(requests)} note="since the gateways started" />
      <Tile
        label="Refused"
        value={short(rejected)}
        tone={rejected > 0 ? "warn" : "neutral"}
        note={requests === 0 ? "no requests" : `${percent(rejected / requests)} of requests`}
      />
      {(isDryRun || dry_run_rejected > 0) && (
        <Tile label="Would be refused" value={short(dry_run_rejected)} note="admitted by a dry run" />
      )}
    </>
  );
}

function ValuesTable({ reply: { values, burst } }: { reply: LimitUsageReply }) {
  return (
    <div class="table-box">
      <table>
        <thead>
          <tr>
            <th>Value</th>
            <th class="right">Used</th>
            <th class="bar-cell wide-only" aria-label="Used share of the burst" />
            <th class="right">Left</th>
            <th class="right wide-only">On leases</th>
            <th class="right">Spent</th>
            <th class="right">Full again in</th>
          </tr>
        </thead>
        <tbody>
          {values.map(({ value, used, remaining, held, spent, reset_seconds }) => (
            <tr key={value}>
              <td class="id value">{value}</td>
              <td class="right num nowrap">
                {short(used)} <span class="text-faint">/ {short(burst)}</span>
              </td>
              <td class="wide-only">
                <Bar
                  share={used / Math.max(burst, 1)}
                  label={`Used tokens of ${value}`}
                  tone={used >= burst ? "bad" : "info"}
                />
              </td>
              <td class={`right num ${remaining < 1 ? "text-bad" : ""}`}>{short(remaining)}</td>
              <td class="right num wide-only">{short(held)}</td>
              <td class="right num">{short(spent)}</td>
              <td class="right num nowrap">{reset_seconds === 0 ? "–" : duration(reset_seconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
