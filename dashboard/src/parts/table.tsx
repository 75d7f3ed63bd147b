/** Tables from a list of columns, so that the head and the cells of a column are in one place, and what several of them show. */
import type { ComponentChildren } from "preact";
import { percent, short } from "../format.js";
import { Badge, Bar, Tile } from "./parts.js";

export interface Column<Row> {
  title: string;
  cell(row: Row): ComponentChildren;
  /** A bar has its title as a label. Default: text. */
  kind?: "number" | "bar";
  /** Hidden on narrow screens. */
  isWideOnly?: boolean;
  /** Further classes of the cells. */
  class?: string | ((row: Row) => string);
}

interface TableProps<Row> {
  rows: readonly Row[];
  keyOf(row: Row): string;
  /** False: the column is left out. */
  columns: readonly (Column<Row> | false)[];
  class?: string;
}

export function Table<Row>({ rows, keyOf, columns, class: name }: TableProps<Row>) {
  const shown = columns.filter((column) => column !== false);
  return (
    <div class="table-box">
      <table class={name}>
        <thead>
          <tr>
            {shown.map(({ title, kind, isWideOnly }) => (
              <th
                key={title}
                class={classes(kind === "number" && "right", kind === "bar" && "bar-cell", isWideOnly && "wide-only")}
                aria-label={kind === "bar" ? title : undefined}
              >
                {kind !== "bar" && title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {shown.map(({ title, kind, isWideOnly, class: more, cell }) => (
                <td
                  key={title}
                  class={classes(
                    kind === "number" && "right num",
                    isWideOnly && "wide-only",
                    typeof more === "function" ? more(row) : more,
                  )}
                >
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const classes = (...names: (string | false | undefined)[]) => names.filter(Boolean).join(" ") || undefined;

/** The class of a number that should be 0. */
export const badIfAny = (value: number) => (value > 0 ? "text-bad" : "text-faint");

interface Decisions {
  requests: number;
  rejected: number;
  dry_run_rejected: number;
}

interface DecisionTilesProps {
  decisions: Decisions;
  isDryRun: boolean;
  /** About the requests. */
  note: string;
}

export function DecisionTiles({
  decisions: { requests, rejected, dry_run_rejected },
  isDryRun,
  note,
}: DecisionTilesProps) {
  return (
    <>
      <Tile label="Requests" value={short(requests)} note={note} />
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

/** Requests by decision; with the last column only if a dry run admitted one. */
export function decisionColumns<Row>(
  rows: readonly Row[],
  decisionsOf: (row: Row) => Decisions | null,
): (Column<Row> | false)[] {
  return [
    { title: "Requests", kind: "number", cell: (row) => short(decisionsOf(row)?.requests) },
    {
      title: "Refused",
      kind: "number",
      class: (row) => badIfAny(decisionsOf(row)?.rejected ?? 0),
      cell: (row) => short(decisionsOf(row)?.rejected),
    },
    rows.some((row) => (decisionsOf(row)?.dry_run_rejected ?? 0) > 0) && {
      title: "Would be refused",
      kind: "number",
      class: "text-faint",
      cell: (row) => short(decisionsOf(row)?.dry_run_rejected),
    },
  ];
}

export function AppLink({ id }: { id: string }) {
  return (
    <a class="id" href={`#/apps/${encodeURIComponent(id)}`}>
      {id}
    </a>
  );
}

export function DryRunBadge({ dry_run }: { dry_run: boolean }) {
  return dry_run && <Badge tone="info">dry run</Badge>;
}

export function LiveBadge({ alive }: { alive: boolean }) {
  return alive ? <Badge tone="good">live</Badge> : <Badge tone="bad">silent</Badge>;
}

interface Bucket {
  app_id: string;
  tokens: number | null;
  burst: number;
}

/** The tokens of an app out of its burst, as a number and as a bar. */
export function bucketColumns<Row>(title: string, bucketOf: (row: Row) => Bucket, shown = short): Column<Row>[] {
  return [
    {
      title,
      kind: "number",
      class: "nowrap",
      cell(row) {
        const { tokens, burst } = bucketOf(row);
        return (
          <>
            {tokens === null ? "unknown" : shown(Math.floor(tokens))} <span class="text-faint">/ {shown(burst)}</span>
          </>
        );
      },
    },
    {
      title: "Fill level",
      kind: "bar",
      isWideOnly: true,
      cell(row) {
        const { app_id, tokens, burst } = bucketOf(row);
        return <Bar share={(tokens ?? 0) / Math.max(burst, 1)} label={`Tokens in the bucket of ${app_id}`} />;
      },
    },
  ];
}
