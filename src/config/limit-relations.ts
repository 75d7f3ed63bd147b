/** Validates limits and what refers to them. */

import { parseNetwork } from "../core/address.js";
import { DEFAULT_APP } from "../core/identity.js";
import { isAddressPart } from "../limit-rules/key-parts.js";
import { parseKeyPart } from "../limiter/limits/limit-options.js";
import { didYouMean } from "./nearest.js";
import { routeName } from "./options/slots.js";
import type { Path } from "./problem.js";
import type { Config } from "./schema.js";

type Complain = (path: Path, reason: string) => void;
type Limit = Config["limits"][number];

/** Sections with errors of their own are missing in `config`. */
export function checkLimits({ limits, routes, apps }: Partial<Config>, complain: Complain): void {
  if (limits === undefined) return;
  const names = new Map<string, number>();
  limits.forEach((limit, i) => {
    const before = names.get(limit.name);
    if (before !== undefined) complain(["limits", i, "name"], `limits[${before}] has the same name`);
    names.set(limit.name, i);
    checkKey(limit, i, complain);
    checkValues(limit, i, complain);
    if (apps !== undefined) checkApps(limit, i, Object.keys(apps), complain);
    if (routes !== undefined) checkRouteNames(limit, i, routes.map(routeName), complain);
  });
  routes?.forEach(({ limits: used }, i) => {
    used.forEach((name, j) => {
      if (names.has(name)) return;
      complain(["routes", i, "limits", j], `is not one of limits${didYouMean(name, [...names.keys()])}`);
    });
  });
}

function checkKey({ key }: Limit, i: number, complain: Complain): void {
  const seen = new Set<string>();
  key.forEach((part, j) => {
    const name = JSON.stringify(parseKeyPart(part));
    if (seen.has(name)) complain(["limits", i, "key", j], "occurs twice");
    seen.add(name);
  });
}

function checkValues({ key, allow, deny }: Limit, i: number, complain: Complain): void {
  const part = parseKeyPart(key[0] ?? "");
  for (const [option, values] of Object.entries({ allow, deny })) {
    if (values.length === 0) continue;
    if (key.length !== 1) complain(["limits", i, option], "requires a key with exactly one part");
    else if (part !== undefined && isAddressPart(part)) {
      values.forEach((value, j) => {
        if (parseNetwork(value) === undefined) complain(["limits", i, option, j], "must be an address or a network");
      });
    }
  }
  deny.forEach((value, j) => {
    if (allow.includes(value)) complain(["limits", i, "deny", j], "is also in allow");
  });
}

function checkApps({ match }: Limit, i: number, apps: string[], complain: Complain): void {
  match.app.forEach((app, j) => {
    if (app === DEFAULT_APP || apps.includes(app)) return;
    complain(["limits", i, "match", "app", j], `is not one of apps${didYouMean(app, apps)}`);
  });
}

function checkRouteNames({ match }: Limit, i: number, routes: string[], complain: Complain): void {
  match.route.forEach((route, j) => {
    if (routes.includes(route)) return;
    complain(["limits", i, "match", "route", j], `is not one of routes${didYouMean(route, routes)}`);
  });
}
