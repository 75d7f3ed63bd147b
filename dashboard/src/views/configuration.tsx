/** Configuration: effective values with their source, recent changes, and what another configuration would do. */
import { useState } from "preact/hooks";
import type { AuditReply, EffectiveReply, WhatIfReply } from "../../../src/service/operations/contract/contract.js";
import { admin, useReply } from "../api.js";
import { count, percent, plural } from "../format.js";
import { Badge, Card, Empty, Failure, Loading, PageHead, Search, type Tone } from "../parts/parts.js";
import { Table } from "../parts/table.js";

const tabs = [
  ["values", "Effective values"],
  ["history", "Changes"],
  ["what-if", "What if"],
] as const;

export function ConfigurationView() {
  const [tab, setTab] = useState<string>("values");
  return (
    <>
      <PageHead title="Configuration">
        <div class="tabs" role="tablist" aria-label="Configuration">
          {tabs.map(([id, title]) => (
            <button
              key={id}
              type="button"
              role="tab"
              id={`tab-${id}`}
              aria-selected={tab === id}
              aria-controls="tab-panel"
              onClick={() => setTab(id)}
            >
              {title}
            </button>
          ))}
        </div>
      </PageHead>
      <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab}`}>
        {tab === "values" ? <Values /> : tab === "history" ? <Changes /> : <WhatIf />}
      </div>
    </>
  );
}

const sourceTones: Record<string, Tone> = {
  default: "neutral",
  file: "info",
  store: "warn",
  environment: "good",
  "command line": "good",
};

function Values() {
  const { reply, failure } = useReply<EffectiveReply>("config/effective", 5_000);
  const [search, setSearch] = useState("");
  const [onlySet, setOnlySet] = useState(true);
  if (reply === undefined) return failure === "" ? <Loading rows={8} /> : <Failure text={failure} />;
  const found = reply.options.filter(({ path, source }) => path.includes(search) && (!onlySet || source !== "default"));
  return (
    <Card
      title={`Version ${reply.config_version.slice(0, 12)}, ${plural(found.length, "option")}`}
      action={
        <div class="filters">
          <label class="check">
            <input type="checkbox" checked={onlySet} onChange={(event) => setOnlySet(event.currentTarget.checked)} />{" "}
            without defaults
          </label>
          <Search label="Search options" placeholder="Search options" value={search} changed={setSearch} />
        </div>
      }
    >
      {found.length === 0 ? (
        <Empty icon="config" title="No option matches" />
      ) : (
        <Table
          class="values"
          rows={found.slice(0, 500)}
          keyOf={({ path }) => path}
          columns={[
            { title: "Option", class: "mono", cell: ({ path }) => path },
            { title: "Value", class: "mono value", cell: ({ value }) => value },
            {
              title: "Source",
              class: "nowrap",
              cell: ({ source, variable = source }) => (
                <Badge tone={sourceTones[source] ?? "neutral"}>{variable}</Badge>
              ),
            },
          ]}
        />
      )}
      {reply.apps_left_out > 0 && (
        <p class="quiet">{plural(reply.apps_left_out, "app")} are not listed here; see Apps.</p>
      )}
    </Card>
  );
}

const outcomeTones: Record<string, Tone> = { done: "good", refused: "warn", failed: "bad" };

function Changes() {
  const { reply, failure } = useReply<AuditReply>("audit", 2_000);
  if (reply === undefined) return failure === "" ? <Loading rows={8} /> : <Failure text={failure} />;
  return (
    <Card title="Changes since this service started">
      {reply.entries.length === 0 ? (
        <Empty icon="config" title="Nothing was changed">
          Changes through this service appear here with their author and reason, and changes of the configuration by
          anyone.
        </Empty>
      ) : (
        <ul class="audit">
          {reply.entries.map((entry, i) => (
            <li key={`${entry.timestamp} ${i}`}>
              <span class="num text-faint">{new Date(entry.timestamp).toLocaleString("en-GB")}</span>
              <span>
                <strong>{entry.operator || "File or store layer"}</strong> {actionText(entry.action)}{" "}
                <Badge tone={outcomeTones[entry.outcome] ?? "neutral"}>{entry.outcome}</Badge>
                {entry.reason !== "" && <span class="audit-reason">“{entry.reason}”</span>}
              </span>
              <ChangeDetail entry={entry} />
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

const actionTexts: Record<string, string> = {
  "config.followed": "changed the configuration",
  "config.put": "wrote the configuration layer",
  "config.delete": "removed the configuration layer",
  "config.restore": "restored the configuration layer",
  reload: "reloaded the configuration",
  "dashboard.login": "signed in",
  "dashboard.logout": "signed out",
  emergency: "changed the emergency",
  "degradation.pin": "pinned the degradation level",
  "degradation.unpin": "unpinned the degradation level",
  borrow: "lent tokens to an app",
  repay: "repaid an app's debt",
  reconcile: "reconciled",
  "cluster-refill": "filled the cluster's bucket",
  "limit-reset": "reset a value of a limit",
  "limit-top-up": "topped up a value of a limit",
};
const actionText = (action: string) => actionTexts[action] ?? action;

type AuditEntry = AuditReply["entries"][number];

/** Parameters that say something: not the whole layer, whose changes are listed. */
function parametersOf({ detail }: AuditEntry): string[] {
  const { parameters = {}, why } = JSON.parse(detail) as { parameters?: Record<string, unknown>; why?: string };
  const shown = Object.entries(parameters)
    .filter(([, value]) => typeof value !== "object")
    .map(([name, value]) => `${name}: ${String(value)}`);
  return why === undefined || why === "" ? shown : [...shown, why];
}

const SHOWN_CHANGES = 20;

function ChangeDetail({ entry }: { entry: AuditEntry }) {
  const [isOpen, setOpen] = useState(false);
  const parameters = parametersOf(entry);
  const shown = isOpen ? entry.changes : entry.changes.slice(0, SHOWN_CHANGES);
  return (
    <div class="audit-detail">
      {parameters.length > 0 && <p class="quiet">{parameters.join(", ")}</p>}
      {shown.length > 0 && <Differences changes={shown} />}
      {entry.changes.length > shown.length && (
        <button type="button" class="secondary more" onClick={() => setOpen(true)}>
          Show {count(entry.changes.length - shown.length)} more
        </button>
      )}
    </div>
  );
}

/** One line per option: old → new. */
function Differences({
  changes,
}: {
  changes: readonly { path: string; before: string | null; after: string | null }[];
}) {
  return (
    <ul class="diff">
      {changes.map(({ path, before, after }) => (
        <li key={path}>
          <span class="mono">{path}</span>
          <span class="mono diff-before">{before ?? "not set"}</span>
          <span class="diff-arrow" aria-hidden="true">
            →
          </span>
          <span class="mono diff-after">{after ?? "removed"}</span>
        </li>
      ))}
    </ul>
  );
}

function WhatIf() {
  const [text, setText] = useState("");
  const [reply, setReply] = useState<WhatIfReply | undefined>();
  const [failure, setFailure] = useState("");
  const [isBusy, setBusy] = useState(false);
  const run = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const result = await admin<WhatIfReply>("POST", "config/what-if", { yaml: text });
    setBusy(false);
    if (result.ok) setReply(result.value);
    setFailure(result.ok ? "" : result.failure.detail || result.failure.reason);
  };
  return (
    <div class="columns columns-even">
      <Card title="Try another configuration">
        <form onSubmit={(event) => void run(event)}>
          <p class="form-help">
            Paste a configuration file. Nothing is changed: it is checked, compared with the current one, and the
            traffic of the last minutes is replayed with both.
          </p>
          <textarea
            aria-label="Configuration in YAML"
            rows={18}
            spellcheck={false}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
            placeholder={"apps:\n  checkout: { guaranteed: 100, burst: 400 }"}
          />
          <Failure text={failure} />
          <div class="dialog-foot">
            <button type="submit" class="primary" disabled={isBusy || text.trim() === ""}>
              {isBusy ? "Replaying…" : "Compare"}
            </button>
          </div>
        </form>
      </Card>
      <div class="stack" aria-live="polite">
        {reply === undefined ? (
          <Card title="Result">
            <Empty icon="config" title="No comparison yet">
              The result shows changed options and how many requests would have been refused.
            </Empty>
          </Card>
        ) : (
          <WhatIfResult reply={reply} />
        )}
      </div>
    </div>
  );
}

function WhatIfResult({ reply }: { reply: WhatIfReply }) {
  if (reply.problems.length > 0) {
    return (
      <Card title="The configuration is invalid">
        <ul class="reasons">
          {reply.problems.map(({ path, reason }) => (
            <li key={path}>
              <span class="mono">{path}</span>
              <span class="text-bad">{reason}</span>
            </li>
          ))}
        </ul>
      </Card>
    );
  }
  const { replay } = reply;
  return (
    <>
      <Card title="Replay">
        {replay === null ? (
          <p class="quiet">No requests were recorded in the last minutes.</p>
        ) : (
          <>
            <p class="quiet">
              {count(replay.requests)} requests of the last {count(replay.seconds)} s, with{" "}
              {plural(replay.nodes, "node")} and full buckets at the start.
            </p>
            <Table
              rows={replay.apps}
              keyOf={({ app_id }) => app_id}
              columns={[
                { title: "App", class: "id", cell: ({ app_id }) => app_id },
                { title: "Requests", kind: "number", cell: ({ requests }) => count(requests) },
                {
                  title: "Refused now",
                  kind: "number",
                  cell: ({ refused_before, requests }) => percent(refused_before / Math.max(requests, 1)),
                },
                {
                  title: "With the change",
                  kind: "number",
                  class: ({ refused_before, refused_after }) => (refused_after > refused_before ? "text-bad" : ""),
                  cell: ({ refused_after, requests }) => percent(refused_after / Math.max(requests, 1)),
                },
              ]}
            />
          </>
        )}
      </Card>
      <Card title={plural(reply.changes.length, "changed option")}>
        {reply.changes.length === 0 ? (
          <p class="quiet">Equal to the current configuration.</p>
        ) : (
          <Differences changes={reply.changes.slice(0, 200)} />
        )}
      </Card>
    </>
  );
}
