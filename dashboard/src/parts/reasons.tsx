/** Reasons of refusals, labelled with the limit that refused; what a dry run admitted is shown apart. */
import type { Reason } from "../../../src/service/metrics/refusal-counts.js";
import { count, words } from "../format.js";
import { Badge, Card } from "./parts.js";

/** A data plane may report only that it was one of `limits`. */
const limitText = (limit: string) => (limit === "*" ? "a limit" : `limit ${limit}`);

interface ReasonBadgeProps {
  code: string;
  /** The limit of `limits` that refused. */
  limit: string | null | undefined;
  dryRun: boolean;
}

export function ReasonBadge({ code, limit, dryRun }: ReasonBadgeProps) {
  const by = limit == null ? "" : ` by ${limitText(limit)}`;
  return (
    <Badge tone={dryRun ? "info" : "warn"}>
      {dryRun ? `Would be refused: ${words(code).toLowerCase()}${by}` : `${words(code)}${by}`}
    </Badge>
  );
}

export function Reasons({ reasons, empty }: { reasons: readonly Reason[]; empty: string }) {
  const refused = reasons.filter(({ dry_run }) => !dry_run);
  const dry = reasons.filter(({ dry_run }) => dry_run);
  return (
    <>
      <Card title="Refusals by reason">
        {refused.length === 0 ? <p class="quiet">{empty}</p> : <ReasonList reasons={refused} />}
      </Card>
      {dry.length > 0 && (
        <Card title="Would be refused without a dry run">
          <ReasonList reasons={dry} />
        </Card>
      )}
    </>
  );
}

function ReasonList({ reasons }: { reasons: readonly Reason[] }) {
  return (
    <ul class="reasons">
      {reasons.map(({ code, layer, limit, total }) => (
        <li key={`${code} ${limit}`}>
          <span>
            {words(code)} <Badge tone="neutral">{limit === null ? layer : limitText(limit)}</Badge>
          </span>
          <span class="num">{count(total)}</span>
        </li>
      ))}
    </ul>
  );
}
