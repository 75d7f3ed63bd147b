/** Finds an app of the configuration, or says which one was probably meant. */

import { nearest } from "../../config/nearest.js";
import { quoted } from "../../config/problem.js";
import { UNKNOWN_APP } from "../../core/codes.js";
import type { AppLimits } from "../../core/limits.js";
import { problem, type Reply } from "../control/endpoint.js";

/** More names than anyone has misspelt are not compared. */
const MOST_COMPARED = 10_000;

export function findApp(apps: readonly AppLimits[], id: string): AppLimits | undefined {
  return apps.find((app) => app.id === id);
}

export function noSuchApp(apps: readonly AppLimits[], id: string): Reply<never> {
  const likely = nearest(
    id,
    apps.slice(0, MOST_COMPARED).map((app) => app.id),
  );
  const reason = `there is no app ${quoted(id)} in the configuration`;
  const detail = likely === undefined ? {} : { detail: `did you mean ${likely}?` };
  return problem(404, UNKNOWN_APP, reason, { field: "app_id", ...detail });
}
