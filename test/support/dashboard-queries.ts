/** The queries of all dashboards in monitoring/, with their variables replaced. */
import { readdirSync, readFileSync } from "node:fs";
import { DASHBOARDS } from "../../build/monitoring.js";
import { fromRoot } from "../../build/paths.js";

interface DashboardFile {
  panels?: { title?: string; targets?: { expr: string }[] }[];
}

/** @param range replaces `$__rate_interval` */
export function dashboardQueries(range = "1m"): { dashboard: string; title: string; query: string }[] {
  return readdirSync(fromRoot(DASHBOARDS)).flatMap((dashboard) => {
    const { panels = [] } = JSON.parse(readFileSync(fromRoot(`${DASHBOARDS}/${dashboard}`), "utf8")) as DashboardFile;
    return panels.flatMap(({ title = "", targets = [] }) =>
      targets.map(({ expr }) => {
        const query = expr.replaceAll("$__rate_interval", range).replace(/\$\w+/g, ".*");
        return { dashboard, title, query };
      }),
    );
  });
}
